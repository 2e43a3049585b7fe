"""An operator as functions of NumPy arrays, for other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from memmap import same_storage
from nameddim import ELLIPSES, ND

from .._base._linop import NamedLinop
from .._base._roles import Role
from .._base._sizes import input_space
from .._kernels._dtype import in_precision_of

if TYPE_CHECKING:
    from numpy import dtype as Dtype
    from numpy.typing import NDArray

_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


class ArrayFunctions:
    """An operator on NumPy arrays, shaped or flat, one or many at once.

    Parameters are those of ``NamedLinop.to_scipy``. An array is not copied if it has the dtype and
    device in which the operator computes.
    """

    def __init__(
        self,
        linop: NamedLinop,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        like: Tensor | None = None,
    ) -> None:
        if device is None and like is None:
            device = _device_of(linop)
        space = input_space(linop, sizes, like, dtype, device)
        dtype = space.dtype if dtype is not None else space.dtype.to_real()
        if dtype not in _DTYPES:
            raise TypeError(
                f"{linop.signature}: the dtype of NumPy vectors must be one of {[*_DTYPES]}, "
                f"got {dtype}"
            )
        self.linop, self.real = linop, dtype.to_real()
        self.device = torch.device(space.device or "cpu")
        self.ilengths = tuple(space.shape)
        with torch.no_grad():
            y = linop(torch.zeros(self.ilengths, dtype=dtype, device=self.device))
        self.olengths = tuple(y.shape)
        self.dtype: Dtype[Any] = torch.empty(0, dtype=y.dtype).numpy().dtype
        self.axes = batch_axes(linop)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix: (product of output sizes, product of input sizes)."""
        return prod(self.olengths), prod(self.ilengths)

    def adjoint(self) -> ArrayFunctions:
        """Return A^H on arrays."""
        other = copy(self)
        other.linop, other.axes = self.linop.H, self.axes and self.axes[::-1]
        other.ilengths, other.olengths = self.olengths, self.ilengths
        return other

    def normal(self) -> ArrayFunctions:
        """Return A^H A on arrays."""
        other = copy(self)
        other.linop, other.axes = self.linop.N, batch_axes(self.linop.N)
        other.olengths = self.ilengths
        return other

    def apply(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return A x for an array in the shape of the input, or flat."""
        tensor = self._tensor(x).reshape(self.ilengths)
        with torch.no_grad():
            return as_array(self.linop(tensor), tensor)

    def matvec(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return A x, both flat; or A x for each vector of a batch, (..., N) -> (..., M)."""
        if x.size == self.shape[1]:  # also a column (N, 1) of SciPy 1.17
            return self.apply(x).reshape(-1)
        return self._rows(self._tensor(x))

    def matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return A X for each matrix of a batch, (..., N, K) -> (..., M, K)."""
        return self._rows(self._tensor(X).mT).swapaxes(-1, -2)

    def _rows(self, x: Tensor) -> NDArray[Any]:
        """Return A x for vectors (..., N); in one call if the operator takes a batch."""
        batch, n_rows = x.shape[:-1], prod(self.olengths)
        many = x.reshape(batch.numel(), *self.ilengths)
        with torch.no_grad():
            if not len(many):
                y = many
            elif self.axes is None:
                y = torch.stack([self.linop(x).flatten() for x in many])
            else:
                y = self.linop(many.movedim(0, self.axes[0])).movedim(self.axes[1], 0)
            return as_array(y.reshape(*batch, n_rows), many)

    def rmatvec(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H y, as ``matvec`` does."""
        return self.adjoint().matvec(y)

    def rmatmat(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return A^H Y, as ``matmat`` does."""
        return self.adjoint().matmat(Y)

    def _tensor(self, x: NDArray[Any]) -> Tensor:
        tensor = as_tensor(x)
        is_float = tensor.is_floating_point() or tensor.is_complex()
        dtype = in_precision_of(tensor, self.real) if is_float else self.real
        return tensor.to(self.device, dtype)


def _device_of(linop: NamedLinop) -> torch.device:
    devices = linop.input_devices
    if len(devices) > 1:
        raise ValueError(
            f"{linop.signature}: device must be given if weights are on several devices, "
            f"got {sorted(map(str, devices))}"
        )
    return devices[0] if devices else torch.device("cpu")


def as_tensor(x: NDArray[Any]) -> Tensor:
    """Return an array as a tensor, with the same memory if torch supports it, else a copy."""
    if not x.dtype.isnative:
        x = x.astype(x.dtype.newbyteorder("="))
    if not x.flags.writeable or any(stride < 0 or stride % x.itemsize for stride in x.strides):
        x = x.copy()
    return torch.from_numpy(x)


def as_array(y: Tensor, x: Tensor) -> NDArray[Any]:
    """Return a tensor as an array that does not share memory with ``x``."""
    y = y.detach().resolve_conj().resolve_neg()
    if same_storage(x, y):
        y = y.clone()
    array: NDArray[Any] = y.cpu().numpy()
    return array


def batch_axes(linop: NamedLinop) -> tuple[int, int] | None:
    """Return the axes of input and output before which a batch dimension can be inserted.

    That is the place of the ``...`` if it is a batch in both shapes, else None.
    """
    if ELLIPSES not in linop.ishape or ELLIPSES not in linop.oshape:
        return None
    name = ND("Batch").next_unused(linop.dims)
    at_input, at_output = (side.index(ELLIPSES) for side in (linop.ishape, linop.oshape))
    named = linop.resolved((*linop.ishape[:at_input], name, *linop.ishape[at_input + 1 :]))
    return (at_input, at_output) if named.role(name) is Role.BATCH else None
