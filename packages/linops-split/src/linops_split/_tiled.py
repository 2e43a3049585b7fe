"""An operator that is run tile by tile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from tqdm.auto import tqdm

from linops_core import (
    Add,
    Composite,
    Concat,
    NamedLinop,
    Side,
    hooks_are_possible,
    writing_is_safe,
)
from nameddim import ND, NamedDimension

from ._tiling import Tiling

_PLAIN = torch.empty(0)
T = TypeVar("T")


class Tiled(Composite):
    r"""An operator put together of tiles, run one tile after the other on one device.

    The output is allocated once, and each result goes where it belongs as soon as it is there:
    beside input and output there is the workspace of one tile. Where autograd has to keep what the
    tiles return, or under a transform of ``torch.func`` or a compiler, the operands are called as
    they are, with the same result.

    Parameters
    ----------
    whole : NamedLinop
        Of tiles put together by Add and Concat.
    tqdm_kwargs : mapping, optional
        Options of a progress bar over the tiles; none is shown by default.
    sizes : mapping of dimension to int, optional
        Of dimensions that no tile knows; inputs are checked against them.

    Raises
    ------
    TypeError
        If ``whole`` is no operator, or ``tqdm_kwargs`` no mapping.

    Examples
    --------
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(2.0), ("N",))
    >>> Tiled(Concat(A, A, idim="N", odim="N"))(torch.ones(4))
    tensor([0., 1., 0., 1.])
    """

    _is_side_by_side = True

    def __init__(
        self,
        whole: NamedLinop,
        tqdm_kwargs: Mapping[str, object] | None = None,
        sizes: Mapping[NamedDimension, int] | None = None,
    ) -> None:
        if not isinstance(whole, NamedLinop):
            raise TypeError(f"Tiled: what is run must be a NamedLinop, got {type(whole)}")
        check_tqdm_kwargs(whole, tqdm_kwargs)
        super().__init__(whole.shape, [whole])
        self._sizes = dict(sizes or {})
        self._is_endomorphism = whole.is_endomorphism
        self._tqdm_kwargs = tqdm_kwargs
        self._tiling: Tiling | None = None

    @property
    def whole(self) -> NamedLinop:
        """The tiles, put together by Add and Concat."""
        return self.linops[0]

    def tiling(self) -> Tiling:
        """Return the tiles in a row."""
        tiling = self._tiling
        if tiling is None or not tiling.is_of(self.whole):
            tiling = Tiling(self.whole)
            vars(self)["_tiling"] = tiling
        return tiling

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, of one tile after the other."""
        return linop.run(x)  # type: ignore[no-any-return]

    adj_fn = fn  # what an adjoint is put together of are adjoints

    def run(self, x: Tensor) -> Tensor:
        """Return A x: written into one output where that can be, or as the tree returns it."""
        y: Tensor | None = None
        # Without data the same is to happen as with data, so that memory can be planned.
        plain = _PLAIN if type(x) is FakeTensor else x
        if writing_is_safe() and not hooks_are_possible(plain):
            recorded = torch.is_grad_enabled() and (
                x.requires_grad or self.tiling().has_recorded_weights()
            )
            y = None if recorded else self.written(x)
        return self.whole(x) if y is None else y

    def written(self, x: Tensor) -> Tensor | None:
        """Return A x, written into one output, or None where that cannot be done.

        Where autograd has to keep what a tile returns, it must not be written into.
        """
        tiling = self.tiling()
        results = tiling.results(tiling.inputs(x))
        y: Tensor | None = None
        for number, part in enumerate(self.watched(tiling.parts)):
            result, is_first = next(results)
            if is_first:
                if result.requires_grad or not tiling.may_add(result):
                    return None
                if tiling.fills and len(tiling.parts) == 1:
                    return result  # which is the whole output
                if y is None:
                    y = tiling.output_for(result)
                    places = tiling.outputs(y)
                elif (dtype := torch.promote_types(y.dtype, result.dtype)) != y.dtype:
                    y = y.to(dtype)
                    places = tiling.outputs(y)
                if result.shape != (shape := places[number].shape):
                    raise ValueError(
                        f"{part.linop.signature}: a tile must return shape {tuple(shape)}, "
                        f"got {tuple(result.shape)}"
                    )
            if part.adds:
                places[number].add_(result)
            else:
                places[number].copy_(result)
            del result  # before the next one is made
        return y

    def watched(self, steps: Sequence[T]) -> Iterable[T]:
        """Return the steps of a call, with a bar that moves over them if one is wanted."""
        if self._tqdm_kwargs is None:
            return steps
        options: dict[str, Any] = {"desc": str(self.shape), **self._tqdm_kwargs}
        bar: Iterable[T] = tqdm(steps, **options)
        return bar

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``, as the tiles know it or as it was given."""
        known = super().size(dim)
        return self._sizes.get(ND.infer(dim)) if known is None else known

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the length of each dimension of one side, known to the tiles or given."""
        names = self.ishape if side == "input" else self.oshape
        known = zip(names, super().sizes(side), strict=True)
        return tuple([self._sizes.get(dim) if size is None else size for dim, size in known])

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        other = super().renamed(names)
        if other is not self:
            sizes = {names.get(dim, dim): size for dim, size in self._sizes.items()}
            vars(other)["_sizes"] = sizes
        return other

    def _check_sizes(self, shape: torch.Size) -> None:
        NamedLinop._check_sizes(self, shape)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without what is made again."""
        return {**super().__getstate__(), "_tiling": None}

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, tile by tile."""
        return self.with_operands([self.whole.H], self.shape.H)

    def conj(self) -> NamedLinop:
        """Return the conjugate, tile by tile."""
        return self.with_operands([self.whole.conj()], self.shape)

    def own_normal(self) -> NamedLinop:
        """Return the normal operator: of normals of the tiles, or as there and back by tiles."""
        normal = self.whole.N
        is_one_tile = type(self.whole) not in (Add, Concat)
        if is_one_tile or type(normal) in (Add, Concat):
            return self.with_operands([normal], normal.shape)
        return super().own_normal()

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator for data whose centre is first."""
        whole = self.whole.without_fftshift(dims)
        return None if whole is None else self.with_operands([whole], self.shape)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: as in the whole."""
        return self.whole.why_opaque(dim)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the whole between slices; see :meth:`NamedLinop.split`."""
        whole = linop.whole
        return whole.split(whole, linop.own_window(tile))  # type: ignore[no-any-return]

    _split_of_row = split

    def _row(self, dim: NamedDimension, pieces: Sequence[slice]) -> Iterable[NamedLinop]:
        """Return the part of the whole for each of the slices."""
        return self.whole.tiles_along(dim, pieces)


def check_tqdm_kwargs(linop: NamedLinop, tqdm_kwargs: Mapping[str, object] | None) -> None:
    """Refuse what are no options of a progress bar.

    Raises
    ------
    TypeError
        If they are no mapping.
    """
    if not isinstance(tqdm_kwargs, (Mapping, type(None))):
        raise TypeError(
            f"{linop.signature}: tqdm_kwargs must be a mapping of options, got {tqdm_kwargs!r}"
        )
