"""Our NUFFT for locations in radians, with another sign, scale, middle and order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from linops_core import Dense, Diagonal, Identity, NamedLinop, Roll, Scalar
from nameddim import ELLIPSES, NamedDimension

from .._non_uniform._nufft import NUFFT


class NufftOptions(TypedDict, total=False):
    """What can be chosen of the NUFFT that is made; each is an argument of :class:`NUFFT`."""

    output_shape: Sequence[NamedDimension | str]
    input_shape: Sequence[NamedDimension | str]
    batch_shape: Sequence[NamedDimension | str]
    tol: float
    method: str
    toeplitz: bool


class Phase(Diagonal):
    """Multiplication by numbers of absolute value 1, in the precision of the data."""

    @staticmethod
    def fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        """Return w x."""
        return Diagonal.fn(linop, x).to(x.dtype.to_complex())

    @staticmethod
    def adj_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
        """Return conj(w) x."""
        return Diagonal.adj_fn(linop, x).to(x.dtype.to_complex())

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity.on_input_of(self)


def transform(
    omega: Tensor,
    sizes: Sequence[int],
    options: NufftOptions,
    *,
    sign: int = -1,
    scale: float = 1.0,
    middle: Sequence[float] | None = None,
    fft_order: bool = False,
) -> NamedLinop:
    r"""Return :math:`y_j = s \sum_r x_r e^{\pm i \omega_j \cdot (r - m)}` for omega (..., D).

    The middle m is ``N // 2`` if it is not given. With ``fft_order``, x begins with the middle.
    """
    n = torch.tensor(sizes, dtype=torch.float64, device=omega.device)
    omega = omega.double()
    # Sums over whole numbers r - N // 2 do not change with a whole turn.
    turned = torch.where(
        omega.abs() > math.pi, (omega + math.pi).remainder(2 * math.pi) - math.pi, omega
    )
    given: Any = {"output_shape": ("K",), **options}
    F = NUFFT(-sign * turned * n / (2 * math.pi), sizes, **given)
    A: NamedLinop = Scalar(scale * math.sqrt(math.prod(sizes)), F.oshape) @ F
    off = (
        [0.0] * len(sizes)
        if middle is None
        else [size // 2 - at for size, at in zip(sizes, middle, strict=True)]
    )
    if any(off):
        points = given["output_shape"]
        phase = sign * (omega @ torch.tensor(off, dtype=torch.float64, device=omega.device))
        dims = [dim for dim in F.oshape if dim != ELLIPSES]
        weight = torch.polar(torch.ones_like(phase), phase)
        shared = [dim for dim in dims if dim not in points]
        for axis, dim in enumerate(dims):
            weight = weight.unsqueeze(axis) if dim in shared else weight
        A = Phase(weight, F.oshape, shared) @ A
    if fft_order:
        grid = F.ishape[-len(sizes) :]
        A = A @ Roll(grid, [size // 2 for size in sizes], sizes, shape=F.ishape)
    return A


def with_maps(A: NamedLinop, maps: Any, coil_dim: NamedDimension | str) -> NamedLinop:
    """Return A after the multiplication by coil maps (C, ...)."""
    weight, coil = torch.as_tensor(maps), NamedDimension.infer(coil_dim)
    n_batch = len(A.ishape) - (weight.ndim - 1)
    image, batch = A.ishape[n_batch:], [dim for dim in A.ishape[:n_batch] if dim != coil]
    return A @ Dense(weight, (coil, *image), (*batch, *image), (*batch, coil, *image))
