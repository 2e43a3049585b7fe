"""The Fourier transform of an image on a finer grid of frequencies: one half of a NUFFT."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from linops_core import Interpolate, NamedLinop, SliceableLinop
from nameddim import NamedDimension, NamedShape

from ._kaiser_bessel import beatty_beta, deapodisation, padded_size


class OversampledFFT(SliceableLinop):
    r"""The weighted Fourier transform of an image at the frequencies k N / M,

    .. math:: X_k = \prod_d N_d^{-1/2} \sum_r
              x_r \prod_d h_d(r_d) e^{-2 \pi i k_d (r_d - \lfloor N_d / 2 \rfloor) / M_d},

    for k from 0 to M - 1 and the weights h that undo a Kaiser-Bessel kernel. Index
    :math:`\lfloor N / 2 \rfloor` of the image goes to index 0 of the larger grid and what is before
    it to the end, so that nothing has to be shifted afterwards.
    """

    def __init__(
        self,
        image: Sequence[NamedDimension],
        grid: Sequence[NamedDimension],
        sizes: Sequence[int],
        padded: Sequence[int],
        batch: Sequence[NamedDimension],
        width: float,
        beta: float,
    ) -> None:
        shape = NamedShape((*batch, *image), (*batch, *grid), image=image, grid=grid)
        super().__init__(shape)
        self.grid_size, self.padded_size = tuple(sizes), tuple(padded)
        self.width, self.beta = width, beta
        self._axes = tuple(range(-len(sizes), 0))

    @staticmethod
    def fn(linop: OversampledFFT, x: Tensor, /) -> Tensor:
        """Return the transform of the image."""
        padded = x * linop.factors(x)
        for axis in reversed(linop._axes):
            size, larger = linop.grid_size[axis], linop.padded_size[axis]
            before, behind = padded.split([size // 2, size - size // 2], axis)
            lengths = list(padded.shape)
            lengths[axis] = larger - size
            padded = torch.cat([behind, padded.new_zeros(lengths), before], axis)
        return linop._transformed(torch.fft.fftn, padded, "backward")

    @staticmethod
    def adj_fn(linop: OversampledFFT, x: Tensor, /) -> Tensor:
        """Return the image of which the adjoint transform consists."""
        image = linop._transformed(torch.fft.ifftn, x, "forward")
        for axis in linop._axes:
            size, larger = linop.grid_size[axis], linop.padded_size[axis]
            before = image.narrow(axis, larger - size // 2, size // 2)
            image = torch.cat([before, image.narrow(axis, 0, size - size // 2)], axis)
        return image * linop.factors(image)

    def _transformed(self, transform: Callable[..., Tensor], x: Tensor, norm: str) -> Tensor:
        # Not every library of transforms accepts an empty batch.
        return transform(x, dim=self._axes, norm=norm) if x.numel() else x

    def factors(self, like: Tensor) -> Tensor:
        """Return the product of h over all axes and the scale, of the size of the image."""
        weights = like.new_ones((), dtype=like.real.dtype)
        for size, larger in zip(self.grid_size, self.padded_size, strict=True):
            own = deapodisation(size, larger, self.width, self.beta, like.device) / math.sqrt(size)
            weights = weights.unsqueeze(-1) * own.to(weights.dtype)
        return weights

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``."""
        shapes = self.shape.other_shapes
        names = (*shapes["image"], *shapes["grid"])
        sizes = dict(zip(names, self.grid_size + self.padded_size, strict=True))
        return sizes.get(NamedDimension.infer(dim))

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: all of the grid is mixed."""
        shapes = self.shape.other_shapes
        if dim in shapes["image"] or dim in shapes["grid"]:
            return "a Fourier transform mixes all of its grid; cut along points, frames or coils"
        return super().why_opaque(dim)


def gridded_transform(
    locs: Tensor,
    sizes: Sequence[int],
    oversampling: float,
    width: float,
    points: Sequence[NamedDimension],
    image: Sequence[NamedDimension],
    grid: Sequence[NamedDimension],
    batch: Sequence[NamedDimension],
    table_budget: int | None,
) -> NamedLinop:
    """Return the chain that is a NUFFT: a transform on a finer grid, and its interpolation."""
    padded = tuple([padded_size(size, oversampling) for size in sizes])
    scale = [larger / size for larger, size in zip(padded, sizes, strict=True)]
    beta = beatty_beta(width, min(scale))
    fourier = OversampledFFT(image, grid, sizes, padded, batch, width, beta)
    interpolate = Interpolate(
        locs,
        padded,
        batch,
        points,
        grid,
        width,
        kernel_params={"beta": beta},
        scale=scale,
        table_budget=table_budget,
    )
    return interpolate @ fourier
