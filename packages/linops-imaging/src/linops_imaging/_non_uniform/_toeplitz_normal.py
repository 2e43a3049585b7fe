"""The normal operator of a NUFFT as a convolution; kernels follow locations and weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any, ClassVar, Protocol, cast

import torch
from torch import Tensor

from linops_core import (
    Chain,
    Diagonal,
    Interpolate,
    NamedLinop,
    Normal,
    Wrapper,
    linear_function,
)
from linops_core.siblings import Kept, acts_as
from nameddim import ND, get_nd_shape

from ._finufft_plan import adjoint_at, is_installed
from ._kaiser_bessel import chosen
from ._kept import may_be_kept, place_of
from ._oversampled_fft import gridded_transform
from ._toeplitz import Phases, convolved, kernel_of

# Points that are gridded at a time for a kernel, at least: their weights are in memory.
_POINTS = 2**12


class Transform(Protocol):
    """The attributes of a NUFFT that are used here."""

    grid_size: tuple[int, ...]

    @property
    def interpolate(self) -> Interpolate:
        """The part that has the locations."""


class ToeplitzNormal(Wrapper):
    """The composition of a NUFFT, real weights and the adjoint, applied as a convolution.

    Its roles of dimensions are those of the composition, which is its operand. Where no kernel may
    be kept, the composition itself is applied: while gradients to locations or weights are
    recorded, and under tracing or transforms.

    Parameters
    ----------
    chain : Chain
        A NUFFT, perhaps a Diagonal, and the adjoint.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Kept,)

    def __init__(self, chain: NamedLinop) -> None:
        super().__init__(chain)
        self._kept: Kept[Tensor] = Kept()

    @classmethod
    def of(cls, chain: NamedLinop) -> NamedLinop:
        """Return the operator around ``chain``, or ``chain`` if it is not a convolution."""
        is_one = isinstance(chain, Chain) and multiplies_points(chain)
        return cls(chain).as_endomorphism() if is_one else chain

    @property
    def name(self) -> str:
        """The given name, else the name of the operator with ``.N``."""
        return self._name or f"{self._parts()[0].name}.N"

    @staticmethod
    def fn(linop: ToeplitzNormal, x: Tensor, /) -> Tensor:
        """Return A^H D A x."""
        transform, diagonal = linop._transform(), linop._diagonal()
        tensors = [transform.interpolate.locs, *([] if diagonal is None else [diagonal.weight])]
        is_real = linop._is_squared() or not any(tensor.is_complex() for tensor in tensors)
        if not is_real or not may_be_kept(x, tensors):
            return linop.linop(x)
        check_device(linop.name, x, tensors[0])
        dtypes = [t.dtype for t in (x, *tensors[1:])]  # locations do not decide the dtype
        x = x.to(reduce(torch.promote_types, dtypes, torch.complex64))
        return linear_function(linop._convolved, linop._convolved, x, *tensors)

    conj, own_normal = NamedLinop.conj, NamedLinop.own_normal
    _check_vector = NamedLinop._check_vector  # the operand is mostly not asked

    def kernels(self, dtype: torch.dtype) -> Iterator[Tensor]:
        """Yield the kernel of each frame in a real dtype, the last one fastest."""
        transform, diagonal = self._transform(), self._diagonal()
        interpolate, tensors = transform.interpolate, [transform.interpolate.locs]
        locs = interpolate.weight_part("locs")
        if diagonal is None:
            weights = torch.ones((), dtype=locs.dtype, device=locs.device).expand(locs.shape[:-1])
        else:
            tensors.append(diagonal.weight)
            weights = self._weights_of_points(diagonal, interpolate, locs.shape[:-1])
        n_frame_axes = len(interpolate.shape.other_shapes["frames"])
        for index in product(*map(range, locs.shape[:n_frame_axes])):
            own, of_own = locs[index], weights[index]
            place = (place_of(own), diagonal and place_of(of_own), dtype)
            yield self._kept.of(tensors, place, lambda: self._kernel(own, of_own, dtype))  # noqa: B023 (called at once)

    def _kernel(self, locs: Tensor, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the kernel of one frame in a real dtype."""
        sizes = self._transform().grid_size
        if self._is_squared():
            weights = weights.to(torch.complex128).abs().square()
        grid_size = torch.tensor(sizes, dtype=torch.float64, device=locs.device)
        at = locs.reshape(-1, len(sizes)).double()
        at = at - grid_size * (at / grid_size).round()  # the same values, and smaller phases
        tol = 1e-11 if dtype == torch.float64 else 2e-5
        of_values = adjoint_at(at, sizes, tol) if is_installed(at.device.type) else None
        way = chosen(tol, sizes)
        image, grid = get_nd_shape(len(sizes)), get_nd_shape(len(sizes), kspace=True)
        # Adding up grids then takes less than gridding, and points less memory than the grid.
        step = max(_POINTS, math.prod(way.padded) // 64)

        def adjoint(phases: Phases) -> Tensor:
            if of_values is not None:
                return of_values(phases.at(slice(None)))
            total: Tensor | None = None
            for start in range(0, max(1, len(at)), step):  # also without points
                points = slice(start, start + step)
                options = (sizes, way, (ND("P"),), image, grid, (ND("B"),), 0)
                fourier, interpolate = cast(Chain, gridded_transform(at[points], *options)).linops
                part = interpolate.H(phases.at(points).to(dtype.to_complex()))
                total = part if total is None else total.add_(part)
                del part  # before the next one is made
            assert total is not None
            return fourier.H(total)

        return kernel_of(at, weights.reshape(-1), sizes, adjoint, dtype)

    def _convolved(self, x: Tensor) -> Tensor:
        if not x.numel():
            return x.clone()
        transform = self._transform()
        sizes = transform.grid_size
        at, last = transform.interpolate.frame_axes(x.ndim - len(sizes))
        moved = x.movedim(at, last)
        n_batch_axes = moved.ndim - len(sizes) - len(last)
        images = moved.reshape(
            math.prod(moved.shape[:n_batch_axes]), -1, *sizes
        )  # batch, frames, image
        result = torch.empty_like(images, memory_format=torch.contiguous_format)
        for frame, kernel in enumerate(self.kernels(x.real.dtype)):
            convolved(images[:, frame], kernel, sizes, into=result[:, frame])
        return result.reshape(moved.shape).movedim(last, at)

    def _parts(self) -> Sequence[NamedLinop]:
        return cast(Chain, self.linop).linops

    def _transform(self) -> Transform:
        return cast(Transform, self._parts()[0])

    def _diagonal(self) -> Diagonal | None:
        parts = self._parts()
        return diagonal_of(parts[1]) if len(parts) == 3 else None

    def _is_squared(self) -> bool:
        parts = self._parts()
        return len(parts) == 3 and isinstance(parts[1], Normal)

    def _weights_of_points(
        self, diagonal: Diagonal, interpolate: Interpolate, lengths: Sequence[int]
    ) -> Tensor:
        """Return a view of the weights as frames and points."""
        n_frame_axes = len(interpolate.shape.other_shapes["frames"])
        n_axes = len(self._parts()[0].oshape)
        weights = diagonal.aligned_weight(n_axes)
        weights = weights[(None,) * (n_axes - weights.ndim)]
        n_batch_axes = n_axes - (len(lengths) - n_frame_axes)
        weights = weights.movedim(*interpolate.frame_axes(n_batch_axes))
        return weights[(0,) * (n_batch_axes - n_frame_axes)].expand(lengths)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the kernels; a copy computes new kernels."""
        return {**super().__getstate__(), "_kept": Kept()}


def diagonal_of(inner: NamedLinop) -> Diagonal | None:
    """Return ``inner`` if it is a Diagonal, or the Diagonal of which it is the normal."""
    linop = inner.linop if acts_as(inner, Normal) else inner
    return linop if acts_as(linop, Diagonal) else None


def multiplies_points(chain: Chain) -> bool:
    """Return whether the weights between A and A^H belong to points and frames, not to coils."""
    if len(chain.linops) == 2:
        return True
    transform, inner, *others = chain.linops
    diagonal = diagonal_of(inner)
    if diagonal is None or len(others) != 1:
        return False
    of_points = cast(Transform, transform).interpolate.shape.other_shapes["locs_shape"]
    return set(diagonal.shape.other_shapes["weight_shape"]) <= set(of_points)


def check_device(name: str, x: Tensor, locs: Tensor) -> None:
    """Refuse an input on another device than the locations."""
    if x.device != locs.device:
        raise ValueError(
            f"{name}: the input must be on the device of the locations, {locs.device}, got "
            f"{x.device}; move one of them"
        )
