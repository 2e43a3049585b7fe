"""Operators that are cut by name: each weight says which dimension each of its axes is."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nameddim import NamedDimension, NamedShape

from ._copying import attributes_of_linked, linked, with_attributes, with_changed_tensors
from ._description import slices_text, tensor_text
from ._linop import NamedLinop
from ._roles import Role
from ._tile import Window, within

_ALL = slice(None)


class WeightPart(NamedTuple):
    """Which part of a weight an operator reads, and how."""

    shape_key: str
    """Under which the shape of the operator has the names of its axes."""
    broadcast: tuple[int, ...]
    """Axes of size 1 along which the one element stands for all."""
    cut: tuple[slice, ...] = ()
    """What a tile reads, up to the last axis along which that is not all."""
    cut_from: torch.Size | None = None
    """The shape that the weight must keep for that."""
    shifted: tuple[int, ...] = ()
    """Axes along which it is shifted when it is read: the centre comes first."""

    def dims(self, shape: NamedShape) -> tuple[NamedDimension, ...]:
        """Return the names of the axes."""
        return shape.other_shapes[self.shape_key]

    def axes_of(self, dims: Container[NamedDimension], shape: NamedShape) -> tuple[int, ...]:
        """Return the axes of ``dims``, but for those that are broadcast."""
        own = enumerate(self.dims(shape))
        return tuple([at for at, dim in own if dim in dims and at not in self.broadcast])

    def of(self, weight: Tensor) -> Tensor:
        """Return the part of the weight."""
        if not self.shifted:
            return weight[self.cut] if self.cut else weight
        axes = range(weight.ndim)
        along = tuple(self.along(axis) if axis in self.shifted else _ALL for axis in axes)
        across = tuple(_ALL if axis in self.shifted else self.along(axis) for axis in axes)
        shifted: Tensor = torch.fft.ifftshift(weight[across], self.shifted)
        return shifted[along]

    def along(self, axis: int) -> slice:
        """Return what a tile reads along an axis."""
        return self.cut[axis] if axis < len(self.cut) else _ALL

    def is_cut(self, axes: Iterable[int]) -> bool:
        """Whether a tile reads a part along one of the axes."""
        return any(self.along(axis) != _ALL for axis in axes)


class SliceableLinop(NamedLinop):
    """An operator whose weights carry named dimensions, which gives ``split`` and ``size``.

    A subclass registers its weights with :meth:`register_weight` and reads them in ``fn`` and
    ``adj_fn`` through :meth:`weight_part`. It needs no weights: an operator that treats the
    slices of its batch dimensions alike, whatever their number, is sliceable as it is. A
    dimension along which it is not (the grid of an FFT) is named by overriding ``why_opaque``.

    A tile is a linked copy that knows which slice of each weight is its own. It refers to the
    same Parameters, so a tile is never out of date and gradients reach the whole weight.

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

    _is_checked_by_shapes: ClassVar[bool] = True

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__(shape, name)
        self._weights: dict[str, WeightPart] = {}

    def register_weight(
        self,
        name: str,
        weight: Tensor,
        shape_key: str,
        broadcast_dims: tuple[NamedDimension, ...] = (),
    ) -> None:
        """Register ``weight`` as attribute ``name`` with dimensions ``shape.other_shapes[shape_key]``.

        A Parameter stays the same Parameter; any other tensor becomes a buffer, so that a
        weight computed from something else passes gradients on to it.

        Parameters
        ----------
        broadcast_dims : tuple of dimensions
            Those along which the weight has one element that stands for all.

        Raises
        ------
        TypeError
            If the weight is no tensor.
        ValueError
            If its number of dimensions is not that of its names, two of them are ``()``, or it
            does not have size 1 along a dimension to broadcast.
        """  # noqa: E501
        dims = self.shape.other_shapes[shape_key]
        if not isinstance(weight, Tensor):
            raise TypeError(f"{self.name}: {name} must be a torch.Tensor, got {type(weight)}")
        if weight.ndim != len(dims):
            raise ValueError(
                f"{self.name}: {name} must have {len(dims)} dimensions for {shape_key} "
                f"({', '.join(map(str, dims))}), got shape {tuple(weight.shape)}"
            )
        if len(set(dims)) < len(dims):
            raise ValueError(
                f"{self.name}: the dimensions of {name} must have names or numbers, (1) and (2), "
                f"that tell them apart, got ({', '.join(map(str, dims))})"
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
        self._weights[name] = WeightPart(shape_key, tuple(map(dims.index, broadcast_dims)))

    def __delattr__(self, name: str) -> None:
        """Delete an attribute; refused for weights, which all operators made of this one read.

        Raises
        ------
        RuntimeError
            If it is a weight. ``torch.nn.utils.parametrize`` begins so, and changes nothing then.
        """
        if name in vars(self).get("_weights", ()):
            raise RuntimeError(
                f"{self.name}: {name} must stay a tensor of the operator, got a request to delete "
                "it, as by torch.nn.utils.parametrize; make the operator of the computed weight"
            )
        super().__delattr__(name)

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        own = self.__dict__  # each attribute of a module that is looked up by itself costs more
        parameters, buffers = own["_parameters"], own["_buffers"]
        return x.shape, *[
            (parameters[name] if name in parameters else buffers[name]).shape
            for name in own["_weights"]
        ]

    def _check_input(self, x: Tensor) -> None:
        self._check_weights()
        super()._check_input(x)

    def _check_weights(self) -> None:
        """Check that the weights, which may be replaced, are such as they were registered."""
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
        own = self.__dict__
        weight: Tensor | None = own["_parameters"].get(name)
        found: Tensor = own["_buffers"][name] if weight is None else weight
        return found

    def weight_part(self, name: str) -> Tensor:
        """Return the weight as this operator reads it: all of it, or a tile's view."""
        return self._weights[name].of(self._weight(name))

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator with weights that are shifted when they are read."""
        concerned = {dim for dim in dims if dim in self.dims}
        cls = type(self)
        if concerned and not (
            cls.split is NamedLinop.split and cls._tiles_at is SliceableLinop._tiles_at
        ):
            return None  # a tile may know where it is by other means than its weights
        if not self._only_passes_on(concerned):
            return None
        weights, is_cut = dict(self._weights), False
        for name, part in self._weights.items():
            axes = part.axes_of(concerned, self._shape)
            weights[name] = part._replace(shifted=axes)
            is_cut |= part.is_cut(axes)
        if not any(part.shifted for part in weights.values()):
            return self
        if is_cut or any(part.shifted for part in self._weights.values()):
            return None
        return linked(self, None, _weights=weights)

    def _only_passes_on(self, dims: Iterable[NamedDimension]) -> bool:
        """Whether the slices of all of ``dims`` that it has go through independently."""
        return all(self.role(dim) is Role.BATCH for dim in dims if dim in self.dims)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the weights, or None where no weight has it."""
        for name, part in self._weights.items():
            for axis, own in enumerate(part.dims(self._shape)):
                if own == dim and axis not in part.broadcast:
                    piece = part.along(axis)
                    if piece == _ALL:
                        return int(self._weight(name).shape[axis])
                    return int(piece.stop - piece.start)
        return None

    def extra_repr(self) -> str:
        """Return what ``repr`` says of the weights, and which part of them a tile reads."""
        return ", ".join(
            tensor_text(
                name,
                self._weight(name),
                slices_text(map(part.along, range(self._weight(name).ndim))) if part.cut else "",
            )
            for name, part in self._weights.items()
        )

    # Weights are cut by name, and an adjoint has the same names: no detour through H.
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
            whole.append((name, part, [*map(part.along, range(n_axes))], cut_from, axes))
        if not any(axes for *_, axes in whole):
            return [self] * len(windows)  # which all read the same
        attributes, tiles = attributes_of_linked(self), []
        for window in windows:
            weights = {}
            for name, part, cut, cut_from, axes in whole:
                pieces = cut.copy()
                for axis, dim in axes:
                    if dim in window:
                        pieces[axis] = within(pieces[axis], window[dim])
                weights[name] = WeightPart(*part[:2], tuple(pieces), cut_from, part.shifted)
            own = attributes.copy()
            own.update(_weights=weights, _found={})
            tiles.append(with_attributes(self, own))
        return tiles

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        self._check_weights()
        read, weights = {}, {}
        for name, part in self._weights.items():
            # Shifting copies: what tiles share stays shared if it is shifted when it is read.
            now = part._replace(shifted=()) if not part.is_cut(part.shifted) else part
            read[name] = now.of(self._weight(name))
            later = part.shifted if now is not part else ()
            weights[name] = WeightPart(part.shape_key, part.broadcast, shifted=later)
        other = with_changed_tensors(self, change, read)
        other._weights = weights
        return other
