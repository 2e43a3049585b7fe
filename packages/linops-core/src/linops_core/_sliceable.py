"""Operators that are cut by name: each weight says which dimension each of its axes is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nameddim import NamedDimension, NamedShape

from ._copying import linked, with_changed_tensors
from ._linop import NamedLinop


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

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__(shape, name)
        self._weight_shapes: dict[str, str] = {}
        self._cuts: dict[str, tuple[slice, ...]] = {}
        self._cut_from: dict[str, torch.Size] = {}
        self._broadcast: dict[str, frozenset[int]] = {}

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
        self._weight_shapes[name] = shape_key
        self._broadcast[name] = frozenset(dims.index(dim) for dim in broadcast_dims)

    def weight_part(self, name: str) -> Tensor:
        """Return the weight as this operator reads it: all of it, or a tile's view.

        Raises
        ------
        ValueError
            If the weight was replaced by one with another number of dimensions, with another
            size than 1 along a dimension to broadcast, or, in a tile, of another shape.
        """
        weight: Tensor = getattr(self, name)
        cut = self._cuts.get(name)
        if cut is None:
            dims = self._shape.other_shapes[self._weight_shapes[name]]
            broadcast = self._broadcast[name]
            if weight.ndim != len(dims) or any(weight.shape[axis] != 1 for axis in broadcast):
                raise ValueError(
                    f"{self.name}: {name} must be replaced by one of shape "
                    f"({', '.join(map(str, dims))}), got {tuple(weight.shape)}"
                )
            return weight
        if weight.shape != self._cut_from[name]:
            raise ValueError(
                f"{self.name}: {name} of a tile must keep the shape that it was cut from, "
                f"{tuple(self._cut_from[name])}, got {tuple(weight.shape)}; cut the operator again"
            )
        return weight[cut]

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the weights, or None where no weight has it."""
        for name, shape_key in self._weight_shapes.items():
            for axis, own in enumerate(self._shape.other_shapes[shape_key]):
                if own == dim and axis not in self._broadcast[name]:
                    cut = self._cuts.get(name)
                    if cut is None or cut[axis] == slice(None):
                        return int(getattr(self, name).shape[axis])
                    return int(cut[axis].stop - cut[axis].start)
        return None

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        if not window or not linop._weight_shapes:
            return linop  # type: ignore[no-any-return]
        cuts = {}
        for name, shape_key in linop._weight_shapes.items():
            dims = linop.shape.other_shapes[shape_key]
            old = linop._cuts.get(name, (slice(None),) * len(dims))
            cuts[name] = tuple(
                old[axis]
                if dim not in window or axis in linop._broadcast[name]
                else _within(old[axis], window[dim])
                for axis, dim in enumerate(dims)
            )
        piece = linked(linop)
        shapes = {name: getattr(linop, name).shape for name in cuts}
        vars(piece).update(_cuts=cuts, _cut_from=shapes)
        return piece  # type: ignore[no-any-return]

    # Weights are cut by name, and an adjoint has the same names: no detour through H.
    adj_split = split

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        parts = {name: self.weight_part(name) for name in self._cuts}
        other = with_changed_tensors(self, change, parts)
        vars(other)["_cuts"] = {}
        return other


def _within(outer: slice, inner: slice) -> slice:
    """Return ``inner``, counted from the start of ``outer``, counted from zero."""
    offset = outer.start or 0
    return slice(offset + inner.start, offset + inner.stop)
