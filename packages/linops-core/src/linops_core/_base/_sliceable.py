"""Operators whose weights have named dimensions, by which they are sliced."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from memmap.siblings import check_flags
from nameddim import NamedDimension, NamedShape

from .._base._dimensions import Side
from .._kernels._dtype import is_dense, not_a_tensor
from ._copying import attributes_of_linked, linked_copy, with_attributes, with_changed_tensors
from ._description import slices_text, tensor_text
from ._grid_questions import without_fftshift
from ._linop import NamedLinop
from ._roles import Role
from ._tile import Window, within

_ALL = slice(None)


class WeightPart(NamedTuple):
    """The part of a weight that an operator reads."""

    shape_key: str
    """Key of ``shape.other_shapes`` for the names of the axes."""
    broadcast: tuple[int, ...]
    """Axes of size 1 that are broadcast."""
    cut: tuple[slice, ...] = ()
    """The index of the part that a tile reads."""
    cut_from: torch.Size | None = None
    """The shape of the weight when it was cut; it must not change."""
    shifted: tuple[int, ...] = ()
    """Axes along which the weight is shifted when it is read: the centre comes first."""

    def dims(self, shape: NamedShape) -> tuple[NamedDimension, ...]:
        """Return the names of the axes."""
        return shape.other_shapes[self.shape_key]

    def axes_of(self, dims: Container[NamedDimension], shape: NamedShape) -> tuple[int, ...]:
        """Return the axes of ``dims`` that are not broadcast."""
        names = enumerate(self.dims(shape))
        return tuple([at for at, dim in names if dim in dims and at not in self.broadcast])

    def of(self, weight: Tensor) -> Tensor:
        """Return the part of the weight."""
        if not self.shifted:
            return weight[self.cut] if self.cut else weight
        axes = range(weight.ndim)
        along = tuple(self.slice_along(axis) if axis in self.shifted else _ALL for axis in axes)
        across = tuple(_ALL if axis in self.shifted else self.slice_along(axis) for axis in axes)
        shifted: Tensor = torch.fft.ifftshift(weight[across], self.shifted)
        return shifted[along]

    def shape_of(self, weight: Tensor) -> torch.Size:
        """Return the shape of the part, without making it."""
        pieces = map(self.slice_along, range(weight.ndim))
        pairs = zip(pieces, weight.shape, strict=True)
        return torch.Size([n if p == _ALL else p.stop - p.start for p, n in pairs])

    @property
    def bounds(self) -> tuple[tuple[int | None, int | None], ...]:
        """The ends of the slices that a tile reads; they can be a key."""
        return tuple([(piece.start, piece.stop) for piece in self.cut])

    def slice_along(self, axis: int) -> slice:
        """Return the slice that a tile reads along an axis."""
        return self.cut[axis] if axis < len(self.cut) else _ALL

    def is_cut(self, axes: Iterable[int]) -> bool:
        """Whether a tile reads a part along one of the axes."""
        return any(self.slice_along(axis) != _ALL for axis in axes)


class SliceableLinop(NamedLinop):
    """An operator whose weights have named dimensions; ``split`` and ``size`` follow from them.

    A subclass registers its weights with :meth:`register_weight`, and reads them in ``fn`` and
    ``adj_fn`` through :meth:`weight_part`. An operator without weights that treats all slices of
    its batch dimensions alike needs nothing else. Override ``why_opaque`` for dimensions that
    cannot be sliced, such as the grid of an FFT.

    A tile is a linked copy that knows its slice of each weight. It refers to the same Parameters,
    so it is never out of date, and gradients reach the whole weight.

    Examples
    --------
    >>> import torch
    >>> class Scale(SliceableLinop):
    ...     def __init__(self, gain, dim):
    ...         super().__init__(NamedShape((dim,), gain_shape=(dim,)))
    ...         self.register_weight("gain", gain, "gain_shape")
    ...     @staticmethod
    ...     def fn(linop, x):
    ...         return linop.weight_part("gain") * x
    >>> A = Scale(torch.arange(4.0), "N")
    >>> A.split(A, {"N": slice(2, 4)})(torch.ones(2))
    tensor([2., 3.])
    """

    saved_with: ClassVar[tuple[type, ...]] = (WeightPart,)

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__(shape, name)
        self._weights: dict[str, WeightPart] = {}

    def register_weight(
        self,
        name: str,
        weight: Tensor,
        shape_key: str,
        broadcast_dims: tuple[NamedDimension, ...] = (),
        *,
        is_geometry: bool = False,
    ) -> None:
        """Register ``weight`` as attribute ``name`` with dimensions ``shape.other_shapes[shape_key]``.

        A Parameter stays the same Parameter. Any other tensor becomes a buffer, and gradients flow
        through it to the tensors from which it was computed. A lazy conjugate, such as ``w.conj()``, is
        copied, unless w trains: other programs misread it.

        Parameters
        ----------
        broadcast_dims : tuple of dimensions
            Dimensions in which the weight has size 1 and is broadcast.
        is_geometry : bool
            Whether the weight is coordinates, angles or times. Then it stays real and is not
            rounded to half precision, and its dtype does not decide that of vectors.

        Raises
        ------
        TypeError
            If the weight is not a tensor.
        ValueError
            If the numbers of dimensions and names differ, two names are ``()``, or the weight does
            not have size 1 along a broadcast dimension.
        """  # noqa: E501
        check_flags(type(self).__name__, is_geometry=is_geometry)
        dims = self.shape.other_shapes[shape_key]
        if not is_dense(weight):
            raise not_a_tensor(self.name, name, weight)
        if weight.ndim != len(dims):
            raise ValueError(
                f"{self.name}: {name} must have {len(dims)} dimensions for {shape_key} "
                f"({', '.join(map(str, dims))}), got shape {tuple(weight.shape)}"
            )
        if len(set(dims)) < len(dims):
            raise ValueError(
                f"{self.name}: the dimensions of {name} must have names or numbers, (1) and (2), "
                f"that distinguish them, got ({', '.join(map(str, dims))})"
            )
        for dim in broadcast_dims:
            if dim not in dims or weight.shape[dims.index(dim)] != 1:
                raise ValueError(
                    f"{self.name}: {name} must have size 1 along the broadcast dimension "
                    f"{dim}, got shape {tuple(weight.shape)} for ({', '.join(map(str, dims))})"
                )
        if isinstance(weight, nn.Parameter):
            self.register_parameter(name, weight)
        else:
            self.register_buffer(name, weight)
        if is_geometry:
            self._geometry += (name,)
        self._weights[name] = WeightPart(shape_key, tuple(map(dims.index, broadcast_dims)))

    def __delattr__(self, name: str) -> None:
        """Delete an attribute; weights cannot be deleted, because derived operators read them.

        Raises
        ------
        RuntimeError
            If it is a weight. ``torch.nn.utils.parametrize`` deletes weights, so it is refused
            without a change.
        """
        if name in vars(self).get("_weights", ()):
            raise RuntimeError(
                f"{self.name}: {name} must stay a tensor of the operator, got a request to delete "
                "it, as by torch.nn.utils.parametrize; make the operator from the computed weight"
            )
        super().__delattr__(name)

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        attributes = self.__dict__  # attributes of a module are slow to look up
        parameters, buffers = attributes["_parameters"], attributes["_buffers"]
        return x.shape, *[
            (parameters[name] if name in parameters else buffers[name]).shape
            for name in attributes["_weights"]
        ]

    def _check_vector(self, x: object, side: Side) -> None:
        if side == "input":
            self._check_weights()
        super()._check_vector(x, side)

    def _check_weights(self) -> None:
        """Check that replaced weights have the dimensions of the registered ones."""
        for name, part in self._weights.items():
            weight, dims = self._weight(name), part.dims(self._shape)
            if part.cut_from is not None:
                if weight.shape != part.cut_from:
                    raise ValueError(
                        f"{self.name}: {name} of a tile must keep the shape that it was cut from, "
                        f"{tuple(part.cut_from)}, got {tuple(weight.shape)}; "
                        "cut the operator again"
                    )
            elif weight.ndim != len(dims) or any(
                weight.shape[axis] != 1 for axis in part.broadcast
            ):
                raise ValueError(
                    f"{self.name}: {name} must be replaced by one of shape "
                    f"({', '.join(map(str, dims))}), got {tuple(weight.shape)}"
                )

    def _weight(self, name: str) -> Tensor:
        attributes = self.__dict__
        weight: Tensor | None = attributes["_parameters"].get(name)
        tensor: Tensor = attributes["_buffers"][name] if weight is None else weight
        return tensor

    def weight_part(self, name: str) -> Tensor:
        """Return the weight as this operator reads it: the whole, or the view of a tile."""
        return self._weights[name].of(self._weight(name))

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the weights, or None if no weight has it."""
        for name, part in self._weights.items():
            for axis, dim_of_axis in enumerate(part.dims(self._shape)):
                if dim_of_axis == dim and axis not in part.broadcast:
                    piece = part.slice_along(axis)
                    if piece == _ALL:
                        return int(self._weight(name).shape[axis])
                    return int(piece.stop - piece.start)
        return None

    def extra_repr(self) -> str:
        """Return the text of ``repr`` for the weights, and the part that a tile reads."""
        return ", ".join(
            tensor_text(
                name,
                self._weight(name),
                slices_text(map(part.slice_along, range(self._weight(name).ndim)))
                if part.cut
                else "",
            )
            for name, part in self._weights.items()
        )

    # Weights are cut by name, and an adjoint has the same names.
    adj_split = staticmethod(NamedLinop.split)

    def _tiles_at(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the tile for each of the windows."""
        concerned = {dim for window in windows for dim in window}
        whole = []
        for name, part in self._weights.items():
            dims = part.dims(self._shape)
            axes = [(axis, dims[axis]) for axis in part.axes_of(concerned, self._shape)]
            n_axes = max([len(part.cut), *(axis + 1 for axis, _ in axes)])
            cut_from = part.cut_from or self._weight(name).shape
            whole.append((name, part, [*map(part.slice_along, range(n_axes))], cut_from, axes))
        if not any(axes for *_, axes in whole):
            return [self] * len(windows)  # no weight has these dimensions
        attributes, tiles = attributes_of_linked(self), []
        for window in windows:
            weights = {}
            for name, part, cut, cut_from, axes in whole:
                pieces = cut.copy()
                for axis, dim in axes:
                    if dim in window:
                        pieces[axis] = within(pieces[axis], window[dim])
                weights[name] = WeightPart(*part[:2], tuple(pieces), cut_from, part.shifted)
            tile_attributes = attributes.copy()
            tile_attributes.update(_weights=weights, _memos={})
            tiles.append(with_attributes(self, tile_attributes))
        return tiles

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        self._check_weights()
        read, weights = {}, {}
        for name, part in self._weights.items():
            # A shifted weight is a copy. A whole one is passed on as it is, so that tiles share it.
            now = part._replace(shifted=()) if not part.is_cut(part.shifted) else part
            read[name] = now.of(self._weight(name))
            later = part.shifted if now is not part else ()
            weights[name] = WeightPart(part.shape_key, part.broadcast, shifted=later)
        other = with_changed_tensors(self, change, read)
        other._weights = weights
        return other


def with_shifted_weights(
    linop: SliceableLinop, dims: Iterable[NamedDimension]
) -> NamedLinop | None:
    """Return the operator with weights that are shifted when they are read."""
    concerned = {dim for dim in dims if dim in linop.dims}
    cls = type(linop)
    if concerned and not (
        cls.split is NamedLinop.split and cls._tiles_at is SliceableLinop._tiles_at
    ):
        return None  # a tile may depend on its window by other attributes than weights
    if not only_passes_on(linop, concerned):
        return None
    weights, is_cut = dict(linop._weights), False
    for name, part in linop._weights.items():
        axes = part.axes_of(concerned, linop._shape)
        weights[name] = part._replace(shifted=axes)
        is_cut |= part.is_cut(axes)
    if not any(part.shifted for part in weights.values()):
        return linop
    if is_cut or any(part.shifted for part in linop._weights.values()):
        return None
    return linked_copy(linop, None, _weights=weights)


without_fftshift.register(SliceableLinop)(with_shifted_weights)


def only_passes_on(linop: NamedLinop, dims: Iterable[NamedDimension]) -> bool:
    """Whether all of ``dims`` that the operator has are batch dimensions."""
    return all(linop.role(dim) is Role.BATCH for dim in dims if dim in linop.dims)
