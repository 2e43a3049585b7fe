"""Operators that are cut by name: each weight says which dimension each of its axes is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nameddim import NamedDimension, NamedShape

from ._copying import attributes_of_linked, linked, with_attributes, with_changed_tensors
from ._description import slices_text, tensor_text
from ._linop import NamedLinop
from ._roles import Role
from ._tile import Window, within

_ALL = slice(None)


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
        self._indices: dict[str, slice | tuple[slice, ...]] = {}  # the same, as short as can be
        self._cut_from: dict[str, torch.Size] = {}
        self._broadcast: dict[str, tuple[int, ...]] = {}
        self._ifftshifted: dict[str, tuple[int, ...]] = {}

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
        self._broadcast[name] = tuple(dims.index(dim) for dim in broadcast_dims)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute; refused for weights, which all operators made of this one read.

        Raises
        ------
        RuntimeError
            If it is a weight. ``torch.nn.utils.parametrize`` begins so, and changes nothing then.
        """
        if name in vars(self).get("_weight_shapes", ()):
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
            for name in own["_weight_shapes"]
        ]

    def _check_input(self, x: Tensor) -> None:
        self._check_weights()
        super()._check_input(x)

    def _check_weights(self) -> None:
        """Check that the weights, which may be replaced, are such as they were registered."""
        for name, shape_key in self._weight_shapes.items():
            weight, dims = self._weight(name), self._shape.other_shapes[shape_key]
            if name in self._cuts:
                if weight.shape != self._cut_from[name]:
                    raise ValueError(
                        f"{self.name}: {name} of a tile must keep the shape that it was cut from, "
                        f"{tuple(self._cut_from[name])}, got {tuple(weight.shape)}; "
                        "cut the operator again"
                    )
            elif weight.ndim != len(dims) or any(
                weight.shape[axis] != 1 for axis in self._broadcast[name]
            ):
                raise ValueError(
                    f"{self.name}: {name} must be replaced by one of shape "
                    f"({', '.join(map(str, dims))}), got {tuple(weight.shape)}"
                )

    def _weight(self, name: str) -> Tensor:
        # Not getattr: that is slow on a module.
        weight: Tensor | None = self._parameters.get(name)
        if weight is None:
            weight = self._buffers[name]
        assert weight is not None
        return weight

    def weight_part(self, name: str) -> Tensor:
        """Return the weight as this operator reads it: all of it, or a tile's view."""
        own = self.__dict__  # each attribute of a module that is looked up by itself costs more
        weight: Tensor | None = own["_parameters"].get(name)
        if weight is None:
            weight = own["_buffers"][name]
        assert weight is not None
        if own["_ifftshifted"]:
            return self._shifted_part(name, weight)
        index = own["_indices"].get(name)
        return weight if index is None else weight[index]

    def _shifted_part(self, name: str, weight: Tensor) -> Tensor:
        cut, axes = self._cuts.get(name), self._ifftshifted.get(name)
        if axes is None:
            return weight if cut is None else weight[cut]
        if cut is None:
            return torch.fft.ifftshift(weight, axes)  # type: ignore[no-any-return]
        along = tuple(p if axis in axes else _ALL for axis, p in enumerate(cut))
        across = tuple(_ALL if axis in axes else p for axis, p in enumerate(cut))
        return torch.fft.ifftshift(weight[across], axes)[along]  # type: ignore[no-any-return]

    def without_fftshift(self, dims: Iterable[NamedDimension]) -> NamedLinop | None:
        """Return the operator with shifted weights; see :meth:`NamedLinop.without_fftshift`.

        The weights are shifted when they are read, which is less to move than the data where the
        data has more dimensions.
        """
        concerned = {dim for dim in dims if dim in self.dims}
        if concerned and type(self).split is not SliceableLinop.split:
            return None  # a tile may know where it is by other means than its weights
        if not self._only_passes_on(concerned):
            return None
        axes = {}
        for name, shape_key in self._weight_shapes.items():
            of_weight = enumerate(self._shape.other_shapes[shape_key])
            found = {axis for axis, dim in of_weight if dim in concerned}
            found.difference_update(self._broadcast[name])
            if found:
                axes[name] = tuple(sorted(found))
        if not axes:
            return self
        if self._ifftshifted or any(self._is_cut(name, found) for name, found in axes.items()):
            return None
        other = linked(self)
        vars(other)["_ifftshifted"] = axes
        return other

    def _only_passes_on(self, dims: Iterable[NamedDimension]) -> bool:
        """Whether the slices of all of ``dims`` that it has go through independently."""
        return all(self.role(dim) is Role.BATCH for dim in dims if dim in self.dims)

    def _is_cut(self, name: str, axes: Iterable[int]) -> bool:
        cut = self._cuts.get(name)
        return cut is not None and any(cut[axis] != _ALL for axis in axes)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim`` in the weights, or None where no weight has it."""
        for name, shape_key in self._weight_shapes.items():
            for axis, own in enumerate(self._shape.other_shapes[shape_key]):
                if own == dim and axis not in self._broadcast[name]:
                    cut = self._cuts.get(name)
                    if cut is None or cut[axis] == _ALL:
                        return int(self._weight(name).shape[axis])
                    return int(cut[axis].stop - cut[axis].start)
        return None

    def extra_repr(self) -> str:
        """Return what ``repr`` says of the weights, and which part of them a tile reads."""
        texts = []
        for name in self._weight_shapes:
            cut = self._cuts.get(name, ())
            part = slices_text(cut) if any(piece != _ALL for piece in cut) else ""
            texts.append(tensor_text(name, self._weight(name), part))
        return ", ".join(texts)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the operator between the slices of ``tile``; see :meth:`NamedLinop.split`."""
        window = linop.own_window(tile)
        return linop._tiles([window])[0] if window else linop  # type: ignore[no-any-return]

    _split_of_row = split

    def _row(self, dim: NamedDimension, pieces: Sequence[slice]) -> Iterable[NamedLinop]:
        """Return the tile of each of the slices."""
        return self._tiles([{dim: piece} for piece in pieces])

    def _tiles(self, windows: Sequence[Window]) -> Sequence[NamedLinop]:
        """Return the tile of each of the windows, which are all of the same dimensions."""
        if not windows or not self._weight_shapes:
            return [self] * len(windows)
        whole, axes = {}, {}
        for name, shape_key in self._weight_shapes.items():
            dims = self._shape.other_shapes[shape_key]
            found = [(axis, dim) for axis, dim in enumerate(dims) if dim in windows[0]]
            axes[name] = [each for each in found if each[0] not in self._broadcast[name]]
            whole[name] = self._cuts.get(name) or (_ALL,) * len(dims)
        shapes = self._shapes_to_keep()
        attributes = attributes_of_linked(self)
        attributes["_cut_from"] = shapes
        tiles = []
        for window in windows:
            cuts, indices = {}, {}
            for name, of_whole in whole.items():
                cut = list(of_whole)
                for axis, dim in axes[name]:
                    cut[axis] = within(cut[axis], window[dim])
                cuts[name] = tuple(cut)
                if (index := _shortened(cuts[name])) != _ALL:
                    indices[name] = index
            own = attributes.copy()
            own.update(_cuts=cuts, _indices=indices, _found={})
            tiles.append(with_attributes(self, own))
        return tiles

    def _shapes_to_keep(self) -> dict[str, torch.Size]:
        """Return the shapes that the weights of a tile must have; all tiles share them."""
        if not self._cuts:
            shapes = {name: self._weight(name).shape for name in self._weight_shapes}
            if shapes != self._cut_from:
                vars(self)["_cut_from"] = shapes
        return self._cut_from

    # Weights are cut by name, and an adjoint has the same names: no detour through H.
    adj_split = split

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`."""
        # Shifting copies: what tiles share stays shared if it is shifted when it is read.
        shifted = {n: axes for n, axes in self._ifftshifted.items() if not self._is_cut(n, axes)}
        parts = {}
        self._check_weights()
        for name in {*self._cuts, *self._ifftshifted}:
            if name in shifted:
                weight, cut = self._weight(name), self._cuts.get(name)
                parts[name] = weight if cut is None else weight[cut]
            else:
                parts[name] = self.weight_part(name)
        other = with_changed_tensors(self, change, parts)
        vars(other).update(_cuts={}, _indices={}, _ifftshifted=shifted)
        return other


def _shortened(index: tuple[slice, ...]) -> slice | tuple[slice, ...]:
    """Return ``index`` without the whole axes at its end, for each of which torch takes its time.

    Examples
    --------
    >>> _shortened((slice(1, 2), slice(None))), _shortened((slice(None), slice(1, 2)))
    (slice(1, 2, None), (slice(None, None, None), slice(1, 2, None)))
    """
    length = len(index)
    while length > 1 and index[length - 1] == _ALL:
        length -= 1
    return index[0] if length == 1 else index[:length]
