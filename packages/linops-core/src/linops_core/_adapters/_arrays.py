"""An operator as a function of NumPy arrays, which is what other libraries call."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from memmap import same_storage

from .._base._batch import batch_axes
from .._base._linop import NamedLinop
from .._base._sizes import input_lengths
from .._kernels._dtype import in_precision_of

if TYPE_CHECKING:
    from numpy import dtype as Dtype
    from numpy.typing import NDArray

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


class ArrayFunctions:
    """What an operator does to NumPy arrays, flat or in their shapes, one or many at once.

    An array is handed over without a copy where its dtype and device are those in which the
    operator computes. Nothing is recorded for gradients, which arrays cannot carry. Weights are
    read in every call, so a change of them is seen.

    Parameters
    ----------
    linop : NamedLinop
    sizes : mapping of dimension to int, optional
        Those that the operator does not know. A ``...`` that is not given stands for nothing.
    dtype : torch.dtype, optional
        Of the vectors; real, in the precision of the weights, by default.
    device : torch.device or str, optional
        Where the operator is applied; where the weights are by default.

    Raises
    ------
    TypeError
        If dtype is one that NumPy does not have, or no float.
    ValueError
        If the size of a dimension is not known, or weights are on several devices.
    """

    def __init__(
        self,
        linop: NamedLinop,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.linop = linop
        self.vectors = precision_of(linop) if dtype is None else dtype
        if self.vectors not in _DTYPES:
            raise TypeError(
                f"{linop.signature}: the dtype of NumPy vectors must be one of {[*_DTYPES]}, "
                f"got {self.vectors}"
            )
        self.real = torch.empty(0, dtype=self.vectors).real.dtype
        self.device = device_of(linop) if device is None else torch.device(device)
        self.ilengths = tuple(input_lengths(linop, sizes))
        with torch.no_grad():
            y = linop(torch.zeros(self.ilengths, dtype=self.vectors, device=self.device))
        self.olengths = tuple(y.shape)
        self.dtype: Dtype[Any] = torch.empty(0, dtype=y.dtype).numpy().dtype
        self.axes = batch_axes(linop)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix: product of output sizes, product of input sizes."""
        return prod(self.olengths), prod(self.ilengths)

    def adjoint(self) -> ArrayFunctions:
        """Return what A^H does to arrays."""
        return self._related(self.linop.H, self.olengths, self.ilengths)

    def normal(self) -> ArrayFunctions:
        """Return what A^H A does to arrays."""
        return self._related(self.linop.N, self.ilengths, self.ilengths)

    def _related(
        self, linop: NamedLinop, ilengths: tuple[int, ...], olengths: tuple[int, ...]
    ) -> ArrayFunctions:
        other = copy(self)
        other.linop, other.axes = linop, batch_axes(linop)
        other.ilengths, other.olengths = ilengths, olengths
        return other

    def apply(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return A x for an array in the shape of the input."""
        return self._array(self.linop, self._tensor(x).reshape(self.ilengths))

    def apply_adjoint(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y for an array in the shape of the output."""
        return self._array(self.linop.H, self._tensor(y).reshape(self.olengths))

    def matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return A x, both flat."""
        return self.apply(x).reshape(-1)

    def rmatvec(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y, both flat."""
        return self.apply_adjoint(y).reshape(-1)

    def matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return A X, a column for each column: in one call if the operator takes a batch."""
        here, there = self.axes or (None, None)
        return self._columns(self.linop, X, (self.ilengths, here), (self.olengths, there))

    def rmatmat(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H Y, likewise."""
        here, there = self.axes or (None, None)
        return self._columns(self.linop.H, Y, (self.olengths, there), (self.ilengths, here))

    def _columns(
        self,
        linop: NamedLinop,
        X: NDArray[Any],
        inside: tuple[tuple[int, ...], int | None],
        outside: tuple[tuple[int, ...], int | None],
    ) -> NDArray[Any]:
        (ilengths, here), (olengths, there) = inside, outside
        many = self._tensor(X).mT.reshape(X.shape[1], *ilengths)
        with torch.no_grad():
            if not len(many):
                y = many.new_empty(prod(olengths), 0)
            elif here is None or there is None:
                y = torch.stack([linop(x).flatten() for x in many], dim=-1)
            else:
                y = linop(many.movedim(0, here)).movedim(there, -1)
                y = y.reshape(prod(olengths), len(many))
            return as_array(y, many)

    def _tensor(self, x: NDArray[Any]) -> Tensor:
        tensor = as_tensor(x)
        is_float = tensor.is_floating_point() or tensor.is_complex()
        dtype = in_precision_of(tensor, self.real) if is_float else self.real
        return tensor.to(self.device, dtype)

    def _array(self, linop: NamedLinop, x: Tensor) -> NDArray[Any]:
        with torch.no_grad():
            return as_array(linop(x), x)


def precision_of(linop: NamedLinop) -> torch.dtype:
    """Return the real dtype in which the weights are, double if there are none."""
    dtypes = [
        tensor.real.dtype
        for tensor in (*linop.parameters(), *linop.buffers())
        if tensor.is_floating_point() or tensor.is_complex()
    ]
    return reduce(torch.promote_types, dtypes) if dtypes else torch.float64


def device_of(linop: NamedLinop) -> torch.device:
    """Return the device of inputs, the CPU if any will do.

    Raises
    ------
    ValueError
        If there are several.
    """
    devices = linop.input_devices
    if len(devices) > 1:
        raise ValueError(
            f"{linop.signature}: device must be given where weights are on several devices, "
            f"got {sorted(map(str, devices))}"
        )
    return devices[0] if devices else torch.device("cpu")


def as_tensor(x: NDArray[Any]) -> Tensor:
    """Return an array as a tensor: of its memory, or of a copy where a tensor cannot have that."""
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if not x.flags.writeable or any(stride < 0 for stride in x.strides):
        x = x.copy()
    return torch.from_numpy(x)


def as_array(y: Tensor, x: Tensor) -> NDArray[Any]:
    """Return a tensor as an array that shares no memory with ``x``, which the caller may change."""
    y = y.detach().resolve_conj().resolve_neg()
    if same_storage(x, y):
        y = y.clone()
    array: NDArray[Any] = y.cpu().numpy()
    return array
