"""Tiled: an operator that runs part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Self, TypeVar, cast

import torch
from torch import Tensor
from tqdm.auto import tqdm

from linops_core import Composite, Identity, NamedLinop, Side, SplitError, Window, Zero, of_adjoint
from linops_core.siblings import (
    attributes_of_linked,
    children_of,
    is_differentiated,
    is_renamed_by,
    shown_operands,
    tile_of,
    with_attributes,
    without_fftshift,
    writing_is_safe,
)
from nameddim import ND, NamedDimension, NamedShape

from ._execution import Forward, RecordedByAutograd, Work, run_in_order
from ._out_of_place import applied_out_of_place
from ._private_torch import FakeTensor
from ._state import state_of_parts, state_of_whole, with_dictionaries
from ._tiles import Part, Tiles
from ._training._part_copies import PartCopies
from ._training._recording import Recording, is_autocast, random_states, recorded
from ._training._weights import weights_held_by

T = TypeVar("T")


class Tiled(Composite):
    r"""An operator that consists of a table of parts, run one after the other on one device.

    The output is allocated once, and each result is written or added there at once. So besides
    input and output, only the workspace of one part is in memory. The backward pass runs each part
    again, so a training step also needs the workspace of only one part. Your own operators must
    return the same result when they are called again with the same input.

    In some cases torch records the operations of the parts itself, with the same result and more
    memory: in transforms of ``torch.func``, forward derivatives, compilers and autocast, for second
    derivatives, and for operators that draw random numbers.

    As a module, it is the whole operator: ``named_parameters()``, ``state_dict()`` and optimizers
    have the names of the whole, and checkpoints of one can be loaded into the other.

    Parameters
    ----------
    tiles : Tiles
    tqdm_kwargs : mapping, optional
        Options for a progress bar over the parts. By default there is no bar.
    sizes : mapping of dimension to int, optional
        Sizes of dimensions that no part knows. Inputs are checked against them.
    whole : NamedLinop, optional
        The operator of which the parts are tiles. Without it, or if parts hold tensors that it does
        not have, the submodules are the parts, as in ``"0"``.

    Raises
    ------
    TypeError
        If ``tiles`` is not a `Tiles` of operators, or ``tqdm_kwargs`` is not a mapping.
    ValueError
        If there is no part, a part has another shape, or a slice is not within its length.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Tiles, Part)

    _is_side_by_side = True

    tiles: Tiles
    """The table of parts."""
    _whole: NamedLinop | None
    """The operator whose submodules and weights are those of this one."""

    def __init__(
        self,
        tiles: Tiles,
        tqdm_kwargs: Mapping[str, object] | None = None,
        sizes: Mapping[NamedDimension, int] | None = None,
        *,
        whole: NamedLinop | None = None,
    ) -> None:
        if not isinstance(tiles, Tiles):
            raise TypeError(f"{type(self).__name__}: tiles must be Tiles, got {type(tiles)}")
        tiles.check(type(self).__name__)
        check_tqdm_kwargs(type(self).__name__, tqdm_kwargs)
        super().__init__(tiles.shape, ())
        for part in tiles.parts:
            part.linop._has_relatives = True  # its dimensions must not change
        self._has_relatives = True  # its operators must not be replaced
        self._sizes = dict(sizes or {})
        self._tqdm_kwargs = tqdm_kwargs
        self._lay_out(tiles, whole)

    def _lay_out(self, tiles: Tiles, whole: NamedLinop | None) -> None:
        """Take a table, and the submodules and weights of the whole, or the parts as submodules."""
        while isinstance(whole, Tiled) and whole._whole is not None:
            whole = whole._whole
        attributes = vars(self)  # where torch does not register modules
        state = None if whole is None else state_of_whole(whole, tiles.tensors)
        attributes.update(tiles=tiles, _whole=None if state is None else whole)
        attributes.update(state_of_parts(tiles.linops) if state is None else state)

    def with_tiles(self, tiles: Tiles, whole: NamedLinop | None = None) -> Self:
        """Return the same kind of operator for another table of tiles."""
        other = with_attributes(self, attributes_of_linked(self, tiles.shape))
        other._lay_out(tiles, whole)
        return other

    def __copy__(self) -> Self:
        """Return a copy with its own dictionaries of the same tensors, which its parts read."""
        other = super().__copy__()
        copies = {id(vars(self)[name]): vars(other)[name] for name in ("_parameters", "_buffers")}
        if self._whole is not None and (self._parameters or self._buffers):
            other._lay_out(
                self.tiles.mapped(lambda linop: with_dictionaries(linop, copies)),
                with_dictionaries(self._whole, copies),
            )
        return other

    def __delattr__(self, name: str) -> None:
        """Delete an attribute; a weight is deleted, or refused, as that of the whole."""
        if name in self._parameters or name in self._buffers:
            delattr(self._whole, name)
        else:
            super().__delattr__(name)

    def _changed(self, tiles: Tiles, derive: Callable[[NamedLinop], NamedLinop]) -> Self:
        return self.with_tiles(tiles, None if self._whole is None else derive(self._whole))

    @property
    def linops(self) -> tuple[NamedLinop, ...]:
        """The operators of the parts."""
        return tuple(self.tiles.linops)

    def _operand(self, number: int) -> NamedLinop:
        return self.tiles.linops[number]

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.tiles.parts)

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        tiles = self.tiles.mapped(lambda linop: linop.with_weights(change))
        other = self.with_tiles(tiles)
        other._has_relatives = False
        return other

    def extra_repr(self) -> str:
        """Return the text of ``repr``: bytes, how many tiles there are, along which dimensions."""
        nbytes, n = super().extra_repr(), len(self)
        dims = dict.fromkeys(str(dim) for part in self.tiles.parts for dim in part.window)
        along = f" along {', '.join(dims)}" if dims else ""
        tiles = f"{n} tiles{along}, the first:" if n > 1 else ""
        return ", ".join(filter(None, (nbytes, tiles)))

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, computed one part after the other."""
        y: Tensor = linop.run(x)
        return y

    adj_fn = staticmethod(of_adjoint)

    def run(self, x: Tensor) -> Tensor:
        """Return A x, written into one output unless a transform or compiler traces the call."""
        if self.tiles.is_one_whole:
            return self.linops[0](x)
        is_plain = isinstance(x, FakeTensor) or type(x) in (Tensor, torch.nn.Parameter)
        if not is_plain or not writing_is_safe() or is_differentiated():  # in forward mode
            self.tiles.lay_out()
            return self.out_of_place(x, self.tiles)
        try:
            if not torch.is_grad_enabled() or not (x.requires_grad or self._is_trained()):
                return self._written(x)
            return self._recorded(x)
        except RecordedByAutograd:
            return self.out_of_place(x, self.tiles)

    def out_of_place(self, x: Tensor, tiles: Tiles) -> Tensor:
        """Return the result of a table for x, by operations that autograd and compilers follow."""
        return applied_out_of_place(tiles, x)

    def _is_trained(self) -> bool:
        """Whether a weight requires a gradient."""
        return any(tensor.requires_grad for tensor in self.tiles.all_tensors())

    def _written(self, x: Tensor) -> Tensor:
        """Return A x, which autograd does not follow."""
        return cast(Tensor, self.execute(Forward(self.tiles, x)))

    def _recorded(self, x: Tensor) -> Tensor:
        """Return A x as a function of the input and of the weights."""
        devices = self._devices()
        if is_autocast(devices) or isinstance(x, FakeTensor):
            raise RecordedByAutograd
        copies, states = self._part_copies(), random_states(devices)
        y = cast(Tensor, self.execute(Forward(self.tiles, x.detach(), copies.frozen)))
        if not all(map(torch.equal, states, random_states(devices))):
            raise RecordedByAutograd
        return recorded(y, Recording(self.signature, copies, self.execute, self.out_of_place), x)

    def _part_copies(self) -> PartCopies:
        return PartCopies(self.tiles)

    def _devices(self) -> Sequence[torch.device]:
        """Return the devices on which parts work."""
        return self.input_devices

    def execute(self, work: Work) -> Tensor | None:
        """Run the parts, with a progress bar if one was asked for, and return the output."""
        return run_in_order(work, self.watched)

    def watched(self, steps: Iterable[T]) -> Iterable[T]:
        """Return the steps of a call, with a progress bar if one was asked for."""
        if self._tqdm_kwargs is None:
            return steps
        options: dict[str, Any] = {"desc": str(self.shape), **self._tqdm_kwargs}
        bar: Iterable[T] = tqdm(steps, **options)
        return bar

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` from the table, a part, the given sizes or the whole."""
        dim = ND.infer(dim)
        length = self.tiles.lengths.get(dim)
        length = super().size(dim) if length is None else length
        length = self._sizes.get(dim) if length is None else length
        return self._whole.size(dim) if length is None and self._whole is not None else length

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the length of each dimension of one side; see `size`."""
        names = self.ishape if side == "input" else self.oshape
        lengths = [self.tiles.length(side, position) for position in range(len(names))]
        lengths = [self._sizes.get(names[at]) if n is None else n for at, n in enumerate(lengths)]
        if None in lengths and self._whole is not None:
            both = zip(lengths, self._whole.sizes(side), strict=True)
            lengths = [of_whole if size is None else size for size, of_whole in both]
        return tuple(lengths)

    def linked_positions(self) -> Sequence[tuple[int, int]]:
        """Return pairs of positions in input and output that are the same dimension."""
        return self.tiles.linked_positions()

    _check_vector = NamedLinop._check_vector

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with renamed dimensions; it shares all tensors."""
        if not is_renamed_by(self, names):
            return self
        other = self._changed(self.tiles.renamed(names), lambda whole: whole.renamed(names))
        other._sizes = {names.get(dim, dim): size for dim, size in self._sizes.items()}
        return other

    def resolved_to(self, shape: NamedShape) -> NamedLinop:
        """Return the operator with ``shape``, which replaces the wildcards of its own shape."""
        sides = {"ishape": shape.ishape, "oshape": shape.oshape}
        tiles = self.tiles.mapped(lambda linop: linop.resolved(**sides), shape)
        return self._changed(tiles, lambda whole: whole.resolved(**sides))

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the table of parts for inputs with these dimensions; see :class:`NamedLinop`."""
        if self.dims & ({*dims} - {*self.ishape}):
            return None  # a part uses the name for another dimension
        operands = [linop.fitted_to(dims) for linop in self.linops]
        fitted = [linop for linop in operands if linop is not None and linop.ishape == dims]
        outputs = {linop.oshape for linop in fitted}
        if len(fitted) < len(operands) or len(outputs) > 1:
            return None
        linops, shape = iter(fitted), NamedShape(dims, outputs.pop())
        tiles = self.tiles.mapped(lambda _: next(linops), shape)
        return self._changed(tiles, lambda whole: whole.fitted_to(dims) or whole)

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, part by part."""
        return self._changed(self.tiles.H, lambda whole: whole.H)

    def conj(self) -> NamedLinop:
        """Return the conjugate, part by part."""
        return self._changed(self.tiles.mapped(NamedLinop.conj), NamedLinop.conj)

    def own_normal(self) -> NamedLinop:
        """Return the normal operator: normals of the parts, or forward and adjoint if needed."""
        normal = self.tiles.normal(self._normal_of_group)
        whole = None if self._whole is None else self._whole.N
        if normal is not None and whole is not None:
            normal = normal.with_output(whole.oshape)
        if normal is None:
            in_turn = super().own_normal()
            if whole is None:
                return in_turn
            # As a module it is the normal of the whole, not a chain in which weights occur twice.
            normal = Tiles.of(in_turn).with_output(whole.oshape)
            if normal is None:
                normal = Tiles.of(Identity(in_turn.oshape, whole.oshape) @ in_turn)
        other = self.with_tiles(normal, whole)
        new = {*other.oshape} - {*self.ishape}  # perhaps a name that was another dimension
        other._sizes = {dim: size for dim, size in self._sizes.items() if dim not in new}
        return other

    def _normal_of_group(self, tiles: Tiles) -> Part:
        """Return the normal operator of parts that must run together."""
        return Part(self.with_tiles(tiles).own_normal())

    def support(self, dim: NamedDimension | str) -> slice | None:
        """Return the used part of ``dim``; None if all is used or it is not known."""
        return self.tiles.hull(ND.infer(dim))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be cut, according to a part or to sizes that differ."""
        having = [linop for linop in self.linops if dim in linop.dims]
        reasons = (linop.why_opaque(dim) for linop in having)
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is None and ND.infer(dim) not in self.tiles.lengths:
            sizes = {linop.size(dim) for linop in having}
            if len(sizes) > 1 and dim not in self.shape.dims:
                return f"it has the sizes {sorted(map(str, sizes))} inside of different parts"
        return reason

    def _tiles_at(self, windows: Sequence[Window]) -> Iterable[NamedLinop]:
        """Return the restriction of the operator to each of the windows."""
        if len({*chain(*windows)}) == 1:
            (dim,) = windows[0]
            cut = self.tiles.split_along(dim, [window[dim] for window in windows])
        else:
            cut = [self.tiles.split(window) for window in windows]
        for window, tiles in zip(windows, cut, strict=True):
            yield self._cut_out(tiles, window)

    def _cut_out(self, tiles: Tiles | None, window: Window) -> NamedLinop:
        if tiles is None and self._whole is not None:
            return tile_of(self._whole, window)  # zeros in the dtype of the whole
        if tiles is None:
            zero = Zero.like(self)
            if zero is None or not zero.is_complete:
                raise SplitError(
                    f"{self.signature}: the operator is zero at {dict(window)}; to cut there, "
                    "each dimension of the input alone or of the output alone must have a known "
                    f"size, got input sizes {self.sizes('input')} and output sizes "
                    f"{self.sizes('output')}"
                )
            return zero.split(zero, window)
        other = self._changed(tiles, lambda whole: tile_of(whole, window))
        other._is_endomorphism = False
        other._sizes = {dim: size for dim, size in self._sizes.items() if dim not in window}
        return tiles.parts[0].linop if tiles.is_one_whole and not other._sizes else other


def check_tqdm_kwargs(owner: str, tqdm_kwargs: Mapping[str, object] | None) -> None:
    """Raise an error if the options of a progress bar are not a mapping."""
    if not isinstance(tqdm_kwargs, (Mapping, type(None))):
        raise TypeError(f"{owner}: tqdm_kwargs must be a mapping of options, got {tqdm_kwargs!r}")


@shown_operands.register(Tiled)
def first_operand(linop: Tiled) -> tuple[NamedLinop, ...]:
    """Return the first of many tiles that are alike."""
    return linop.linops[:1]


@children_of.register(Tiled)
def _parts_of_table(linop: Tiled) -> list[NamedLinop]:
    return linop.tiles.linops


@weights_held_by.register(Tiled)
def _held_by_parts(linop: Tiled) -> list[Tensor]:
    return [tensor for part in linop.tiles.linops for tensor in weights_held_by(part)]


@without_fftshift.register(Tiled)
def _parts_without_fftshift(linop: Tiled, dims: Iterable[NamedDimension]) -> NamedLinop | None:
    dims = list(dims)
    if any(dim in linop.tiles.lengths for dim in dims):
        return None
    unshifted = [without_fftshift(operand, dims) for operand in linop.linops]
    shifted = iter([operand for operand in unshifted if operand is not None])
    if None in unshifted:
        return None
    tiles = linop.tiles.mapped(lambda _: next(shifted))
    return linop._changed(tiles, lambda whole: without_fftshift(whole, dims) or whole)
