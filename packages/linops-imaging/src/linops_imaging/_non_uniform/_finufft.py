"""The non-uniform Fourier transform by the libraries finufft and cufinufft."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor

from linops_core import Interpolate
from nameddim import NamedDimension

from ._finufft_plan import LIBRARIES, Execute, least_tol, library_for, planned
from ._kaiser_bessel import check_tol
from ._kept import Kept, may_be_kept, place_of


class FinufftTransform(Interpolate):
    """A NUFFT by plans of finufft or cufinufft: trigonometric interpolation of the image.

    It keeps a plan for each frame, direction, precision and number of images, until the locations
    change. ``locs`` and ``grid_size`` are those of the NUFFT.
    """

    saved_with: ClassVar[tuple[type, ...]] = (Kept,)

    def __init__(
        self,
        locs: Tensor,
        sizes: Sequence[int],
        tol: float,
        points: Sequence[NamedDimension],
        image: Sequence[NamedDimension],
        batch: Sequence[NamedDimension],
    ) -> None:
        if locs.device.type in LIBRARIES:
            library_for(locs.device.type)  # a missing library is an error now
        check_tol(tol, least_tol(sizes, locs.dtype), sizes, locs.dtype)
        super().__init__(locs, sizes, batch, points, image, table_budget=0)
        self.tol = tol
        self._plans: Kept[Execute] = Kept()

    @staticmethod
    def fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the values at the locations."""
        assert isinstance(linop, FinufftTransform)
        return linop._executed(x, len(linop.grid_size), is_back=False)

    @staticmethod
    def adj_fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the image: the adjoint of the values at the locations."""
        assert isinstance(linop, FinufftTransform)
        locs, n_frame_axes = linop.weight_part("locs"), len(linop.shape.other_shapes["frames"])
        return linop._executed(x, locs.ndim - 1 - n_frame_axes, is_back=True)

    def _executed(self, x: Tensor, n_own: int, *, is_back: bool) -> Tensor:
        """Return the transform of x, whose last ``n_own`` axes are of the image or the points."""
        locs = self.weight_part("locs")
        if not may_be_kept(x, [self.locs]) or x.device.type not in LIBRARIES:
            raise RuntimeError(
                f'{self.name}: method="finufft" must be used on a CPU or a CUDA device, '
                "outside of tracing and transforms, with locations that do not require gradients "
                'and were not made in inference mode, got another case; use method="auto"'
            )
        at, last = self.frame_axes(x.ndim - n_own)
        moved = x.detach().movedim(at, last)
        n_batch_axes = x.ndim - n_own - len(last)
        batch, frames = moved.shape[:n_batch_axes], moved.shape[n_batch_axes : x.ndim - n_own]
        values = moved.reshape(batch.numel(), frames.numel(), *moved.shape[x.ndim - n_own :])
        own = self.grid_size if is_back else locs.shape[len(frames) : -1]
        result = values.new_empty(batch.numel(), frames.numel(), *own)
        if not result.numel() or not values.numel():
            return result.zero_().reshape(*batch, *frames, *own).movedim(last, at)
        for number, index in enumerate(product(*map(range, frames))):
            part = values[:, number].contiguous().resolve_conj().resolve_neg()
            if is_back:
                part = part.flatten(1)
            execute = self._plan(locs[index], len(part), part.dtype, is_back=is_back)
            result[:, number] = execute(part).reshape(result[:, number].shape)
        result *= 1 / math.sqrt(math.prod(self.grid_size))
        return result.reshape(*batch, *frames, *own).movedim(last, at)

    def _plan(self, locs: Tensor, n: int, dtype: torch.dtype, *, is_back: bool) -> Execute:
        """Return the plan for ``n`` images or sets of values of one frame."""
        is_gpu = locs.device.type == "cuda"
        runs_on = torch.cuda.current_stream(locs.device) if is_gpu else torch.get_num_threads()
        place = (*place_of(locs), n, dtype, is_back, runs_on)
        return self._plans.of(
            [self.locs],
            place,
            lambda: planned(locs, self.grid_size, n, dtype, self.tol, is_back=is_back),
        )

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: all of the image is mixed."""
        if dim in self.shape.other_shapes["grid_shape"]:
            return "a Fourier transform mixes all of its grid; cut along points, frames or coils"
        return super().why_opaque(dim)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the plans; a copy makes new plans."""
        return {**super().__getstate__(), "_plans": Kept()}
