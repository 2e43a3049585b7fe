"""The Fourier transform of an image on a finer grid of frequencies: one half of a NUFFT."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from linops_core import GridNames, GridOperator
from linops_core.siblings import Kept, MixedAxis, is_plain, is_recorded, writing_is_safe

from .._some_at_a_time import some_at_a_time
from ._kaiser_bessel import Gridding, deapodisation

# Bytes of the oversampled grids that are computed at a time; one image may have more. A GPU has no
# cache that matters, and waits for each step.
_STEP, _STEP_ON_GPU = 2**21, 2**26


class OversampledFFT(GridOperator[MixedAxis]):
    r"""The weighted Fourier transform of an image at the frequencies k N / M,

    .. math:: X_k = \prod_d N_d^{-1/2} \sum_r
              x_r \prod_d h_d(r_d) e^{-2 \pi i k_d (r_d - \lfloor N_d / 2 \rfloor) / M_d},

    for k from 0 to M - 1, with the weights h that compensate a scaled Kaiser-Bessel kernel. Index
    :math:`\lfloor N / 2 \rfloor` of the image goes to index 0 of the larger grid, and the indices
    before it go to the end. So no shift is needed afterwards.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Gridding,)
    grid_keys = ("image", "grid")
    takes_any_batch = True
    why_mixed = "a Fourier transform mixes all of its grid; cut along points, frames or coils"

    def __init__(self, names: GridNames, sizes: Sequence[int], way: Gridding) -> None:
        axes = map(MixedAxis, sizes, way.padded)
        super().__init__(names.shape(image=names.grid, grid=names.result), axes, names.is_free)
        self.grid_size, self.padded_size, self._way = tuple(sizes), way.padded, way
        self._last = tuple(range(-len(sizes), 0))
        self._kept: Kept[list[Tensor]] = Kept()

    @staticmethod
    def fn(linop: OversampledFFT, x: Tensor, /) -> Tensor:
        """Return the transform of the image."""
        x = linop.gathered(x)
        return linop.scattered(linop._by_image(linop._padded_and_transformed, x, linop.padded_size))

    @staticmethod
    def adj_fn(linop: OversampledFFT, x: Tensor, /) -> Tensor:
        """Return the adjoint transform: an image."""
        x = linop.gathered_back(x)
        return linop.scattered_back(
            linop._by_image(linop._transformed_and_cropped, x, linop.grid_size)
        )

    def _by_image(
        self, one: Callable[[Tensor, Tensor], Tensor], x: Tensor, sizes: tuple[int, ...]
    ) -> Tensor:
        """Return ``one`` of all images, some at a time, so that workspaces stay in the cache."""
        batch = x.shape[: x.ndim - len(sizes)]
        nbytes = _STEP if x.is_cpu else _STEP_ON_GPU
        step = max(1, nbytes // (math.prod(self.padded_size) * x.element_size()))
        factors = self.factors(x)
        if math.prod(batch) <= step or is_recorded(x) or not writing_is_safe():
            return one(x, factors)
        images = x.flatten(0, len(batch) - 1)
        result = some_at_a_time(lambda some: one(some, factors), images, step)
        return result.reshape(batch + sizes)

    def _padded_and_transformed(self, x: Tensor, factors: Tensor) -> Tensor:
        x = x * factors
        for axis in reversed(self._last):
            size, larger = self.grid_size[axis], self.padded_size[axis]
            before, behind = x.split([size // 2, size - size // 2], axis)
            lengths = list(x.shape)
            lengths[axis] = larger - size
            x = torch.cat([behind, x.new_zeros(lengths), before], axis)
        # Not every library of transforms accepts an empty batch.
        return torch.fft.fftn(x, dim=self._last, norm="backward") if x.numel() else x

    def _transformed_and_cropped(self, x: Tensor, factors: Tensor) -> Tensor:
        image = torch.fft.ifftn(x, dim=self._last, norm="forward") if x.numel() else x
        for axis in self._last:
            size, larger = self.grid_size[axis], self.padded_size[axis]
            before = image.narrow(axis, larger - size // 2, size // 2)
            image = torch.cat([before, image.narrow(axis, 0, size - size // 2)], axis)
        return image * factors

    def factors(self, like: Tensor) -> Tensor:
        """Return the product of h over all axes and the scale, of the size of the image."""
        dtype, device = like.real.dtype, like.device
        if is_plain(like):  # some calls are short: a frame, a coil
            along = self._kept.get_or_make(
                [], (dtype, device), lambda: self._along_axes(dtype, device)
            )
        else:
            along = self._along_axes(dtype, device)
        weights = like.new_ones((), dtype=dtype)
        for axis_factor in along:
            weights = weights.unsqueeze(-1) * axis_factor
        return weights

    def _along_axes(self, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
        """Return h times the scale along each axis."""
        return [
            (deapodisation(n, m, self._way.width, self._way.beta, device) / math.sqrt(n)).to(dtype)
            for n, m in zip(self.grid_size, self.padded_size, strict=True)
        ]
