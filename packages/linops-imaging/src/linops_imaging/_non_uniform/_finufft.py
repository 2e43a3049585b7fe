"""The non-uniform Fourier transform by the libraries finufft and cufinufft."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from linops_core import Interpolate, NamedLinop
from linops_core.siblings import FakeTensor, Kept, has_storage
from nameddim import NamedDimension

from ._finufft_function import (
    differentiable_transform,
    non_uniform_transform,
    transform_of_plain_tensors,
)
from ._finufft_plan import (
    LIBRARIES,
    PlanPair,
    fastest_plan_precision,
    is_installed,
    least_tol,
    library_for,
)
from ._kaiser_bessel import check_tol
from ._kept_by_content import KeptByContent, Key, may_be_kept, view_key
from ._method import Method, NufftRequest
from ._toeplitz import Phases


class FinufftTransform(Interpolate):
    """A NUFFT by plans of finufft or cufinufft: trigonometric interpolation of the image.

    It keeps plans for each frame and precision until the locations change, for both directions.
    Where torch does not count all changes, their numbers are compared in each call. ``locs`` and
    ``grid_size`` are those of the NUFFT.
    """

    saved_with: ClassVar[tuple[type, ...]] = (KeptByContent,)

    def __init__(self, request: NufftRequest) -> None:
        locs, sizes, tol, names = request.locs, request.sizes, request.tol, request.names
        if locs.device.type in LIBRARIES:
            library_for(locs.device.type)  # a missing library is an error now
        check_tol(tol, least_tol(sizes), sizes)
        dims, shape, to = names.grid, None if names.is_free else names.names, request.points
        super().__init__(locs, sizes, dims=dims, shape=shape, to=to, table_budget=0)
        self.tol = tol
        self._plans: Kept[PlanPair] = Kept()
        self._plans_by_content: KeptByContent[PlanPair] = KeptByContent()

    def interpolated(self, grids: Tensor) -> Tensor:
        """Return the values of images (B, n) at the locations of all frames, (B, P)."""
        return self._transformed(grids, is_back=False)

    def gridded(self, values: Tensor) -> Tensor:
        """Return the adjoint of ``interpolated`` applied to values (B, P)."""
        return self._transformed(values, is_back=True)

    def _transformed(self, x: Tensor, *, is_back: bool) -> Tensor:
        if x.device.type not in (*LIBRARIES, "meta"):
            raise RuntimeError(
                f'{self.name}: method="finufft" must be used on a CPU or a CUDA device, got '
                f'{x.device}; make the NUFFT of locations on that device, with method="auto"'
            )
        locs, n_frame_axes = self.weight_part("locs"), len(self.shape.other_shapes["frames"])
        n_frames, n_points = (
            locs.shape[part].numel() for part in (slice(n_frame_axes), slice(n_frame_axes, -1))
        )
        sizes = self.grid_size
        values = x.reshape(x.shape[0], n_frames, *((n_points,) if is_back else sizes))
        flat = locs.reshape(n_frames, n_points, len(sizes))
        return differentiable_transform(
            values, flat, is_back, sizes, self.tol, self._computed
        ).flatten(1)

    def _computed(self, x: Tensor, locs: Tensor, is_back: bool) -> Tensor:
        if not (has_storage(x) and has_storage(locs)):  # batches of gradients
            y: Tensor = non_uniform_transform(x, locs, is_back, self.grid_size, self.tol)
            return y
        weight, part = self.locs, self.weight_part("locs")
        is_fake = isinstance(weight, FakeTensor) and not weight.requires_grad
        may_keep = is_fake or (may_be_kept(x, [weight]) and not x.is_meta)
        is_own = may_keep and locs.untyped_storage()._cdata == part.untyped_storage()._cdata

        def keep(of_frame: Tensor, how: Key, make: Callable[[], PlanPair]) -> PlanPair:
            key = (*view_key(part), *view_key(of_frame), *how)
            return self._plans.get_or_make([weight], key, make)

        how = keep if is_own else self._plans_by_content.get_or_make
        return transform_of_plain_tensors(x, locs, is_back, self.grid_size, self.tol, how)

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: all of the image is mixed."""
        if dim in self.shape.other_shapes["grid_shape"]:
            return "a Fourier transform mixes all of its grid; cut along points, frames or coils"
        return super().why_opaque(dim)


class ByFinufft(Method):
    """Plans of finufft or cufinufft."""

    name = "finufft"
    chooses_grid = cuts_batches = True

    def make(self, request: NufftRequest) -> NamedLinop | None:
        """Return the operator if there is a library for the device."""
        can_run = request.is_named_by_user or is_installed(request.locs.device.type)
        return FinufftTransform(request) if can_run else None

    def adjoint(self, request: NufftRequest) -> Callable[[Phases], Tensor] | None:
        """Return the adjoint, in double precision, if there is a library for the device."""
        if not is_installed(request.locs.device.type):
            return None
        locs, sizes = request.locs, request.sizes
        way = fastest_plan_precision(request.tol, sizes, torch.complex128)
        pair = PlanPair(locs, sizes, 1, way)

        def images(phases: Phases) -> Tensor:
            values = phases.at(slice(None))
            result = values.new_zeros(len(values), *sizes)
            if len(locs):
                for one, image in zip(values.split(1), result.split(1), strict=True):
                    pair.apply(one, image, is_back=True)
            return result.mul_(1 / math.sqrt(math.prod(sizes)))

        return images
