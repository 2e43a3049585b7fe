"""Images at some times, whose phase and magnitude change at a rate of their own in each voxel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from linops_core import SliceableLinop
from linops_core.siblings import aligned
from nameddim import NamedDimension, NamedShape


class PhaseEvolution(SliceableLinop):
    r"""Images at the times t, :math:`y_l(r) = x(r) e^{(2 \pi i f(r) - R(r)) t_l}`.

    Nothing of the size of all images is kept: phases are computed in each call, so gradients reach
    the field map and R.

    Parameters
    ----------
    field_map : Tensor
        f in Hz, real.
    r2_star : Tensor, optional
        R in 1 / s, real, of the same shape.
    times : Tensor
        t in s, equally spaced, (L,).
    ishape : sequence of dimensions
        Of an input.
    field_dims : sequence of dimensions
        Of the field map.
    segment : dimension
        Of the times; it is the first one of the output.
    """

    field_map: Tensor
    times: Tensor
    r2_star: Tensor | None

    def __init__(
        self,
        field_map: Tensor,
        r2_star: Tensor | None,
        times: Tensor,
        ishape: Sequence[NamedDimension],
        field_dims: Sequence[NamedDimension],
        segment: NamedDimension,
    ) -> None:
        shape = NamedShape(ishape, (segment, *ishape), field_dims=field_dims, times=(segment,))
        super().__init__(shape)
        self.register_weight("field_map", field_map, "field_dims", is_geometry=True)
        self.register_weight("times", times, "times", is_geometry=True)
        self._decays = r2_star is not None
        if r2_star is not None:
            self.register_weight("r2_star", r2_star, "field_dims", is_geometry=True)

    @staticmethod
    def fn(linop: PhaseEvolution, x: Tensor, /) -> Tensor:
        """Return the images at all times."""
        x = x.to(torch.promote_types(x.dtype, torch.complex64))
        return torch.stack([*linop._factors(x, linop.ishape)]) * x

    @staticmethod
    def adj_fn(linop: PhaseEvolution, x: Tensor, /) -> Tensor:
        """Return the sum of the images with conjugate factors."""
        x = x.to(torch.promote_types(x.dtype, torch.complex64))
        images = x.unbind()
        total = x.new_zeros(x.shape[1:])
        for factor, image in zip(linop._factors(x[0], linop.oshape), images, strict=True):
            total = total + factor.conj() * image
        return total

    def _factors(self, like: Tensor, names: tuple[NamedDimension, ...]) -> Iterator[Tensor]:
        """Yield the factor at each time, which broadcasts against ``like``."""
        field, times = self.weight_part("field_map"), self.weight_part("times")
        dtype = torch.promote_types(field.dtype, like.real.dtype)
        angle = 2 * math.pi * field.to(dtype)
        decay = -self.weight_part("r2_star").to(dtype) if self._decays else torch.zeros_like(angle)
        dims = self.shape.other_shapes["field_dims"]
        rate = aligned(torch.complex(decay, angle), dims, names, like.ndim)
        rate = rate[(None,) * (like.ndim - rate.ndim)]  # factors are stacked along a first axis
        n_times = len(times)
        factor = torch.exp(rate * times[0])
        step = torch.exp(rate * (times[1] - times[0])) if n_times > 1 else factor
        for number in range(n_times):
            yield factor.to(like.dtype)
            if number + 1 < n_times:
                factor = factor * step
