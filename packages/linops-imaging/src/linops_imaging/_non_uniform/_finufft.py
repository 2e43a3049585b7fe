"""The non-uniform Fourier transform by the libraries finufft and cufinufft."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from linops_core import Interpolate, NamedLinop
from linops_core.siblings import FakeTensor, Kept, has_storage
from nameddim import NamedDimension

from ._finufft_function import (
    differentiable_transform,
    non_uniform_transform,
    transform_of_plain_tensors,
)
from ._finufft_plan import LIBRARIES, PlanPair, is_installed, least_tol, library_for
from ._kaiser_bessel import check_tol
from ._kept_by_content import KeptByContent, Key, may_be_kept, view_key
from ._method import Method, Wanted


class FinufftTransform(Interpolate):
    """A NUFFT by plans of finufft or cufinufft: trigonometric interpolation of the image.

    It keeps plans for each frame and precision until the locations change, for both directions.
    Where torch does not count all changes, their numbers are compared in each call. ``locs`` and
    ``grid_size`` are those of the NUFFT.
    """

    saved_with: ClassVar[tuple[type, ...]] = (KeptByContent,)

    def __init__(self, wanted: Wanted) -> None:
        locs, sizes, tol, names = wanted.locs, wanted.sizes, wanted.tol, wanted.names
        if locs.device.type in LIBRARIES:
            library_for(locs.device.type)  # a missing library is an error now
        check_tol(tol, least_tol(sizes), sizes)
        dims, shape, to = names.grid, None if names.is_free else names.names, wanted.points
        super().__init__(locs, sizes, dims=dims, shape=shape, to=to, table_budget=0)
        self.tol = tol
        self._plans: Kept[PlanPair] = Kept()
        self._plans_by_content: KeptByContent[PlanPair] = KeptByContent()

    @staticmethod
    def fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the values at the locations."""
        assert isinstance(linop, FinufftTransform)
        x = linop.gathered(x)
        return linop.scattered(linop._transformed(x, len(linop.grid_size), is_back=False))

    @staticmethod
    def adj_fn(linop: Interpolate, x: Tensor, /) -> Tensor:
        """Return the image: the adjoint of the values at the locations."""
        assert isinstance(linop, FinufftTransform)
        locs, n_frame_axes = linop.weight_part("locs"), len(linop.shape.other_shapes["frames"])
        x = linop.gathered_back(x)
        n_last = locs.ndim - 1 - n_frame_axes
        return linop.scattered_back(linop._transformed(x, n_last, is_back=True))

    def _transformed(self, x: Tensor, n_last: int, *, is_back: bool) -> Tensor:
        """Return the transform of x, whose last ``n_last`` axes are of the image or the points."""
        if x.device.type not in (*LIBRARIES, "meta"):
            raise RuntimeError(
                f'{self.name}: method="finufft" must be used on a CPU or a CUDA device, got '
                f'{x.device}; make the NUFFT of locations on that device, with method="auto"'
            )
        locs = self.weight_part("locs")
        at, last = self.frame_axes(x.ndim - n_last)
        moved = x.movedim(at, last)
        n_batch_axes = x.ndim - n_last - len(last)
        batch, frames = moved.shape[:n_batch_axes], moved.shape[n_batch_axes : x.ndim - n_last]
        points = locs.shape[len(frames) : -1]
        of_x, of_y = ((points.numel(),), self.grid_size) if is_back else (self.grid_size, points)
        values = moved.reshape(math.prod(batch), math.prod(frames), *of_x)
        flat = locs.reshape(math.prod(frames), math.prod(points), locs.shape[-1])
        y = differentiable_transform(
            values, flat, is_back, self.grid_size, self.tol, self._computed
        )
        return y.reshape(*batch, *frames, *of_y).movedim(last, at)

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
    goes_by_tol = cuts_batches = True

    def make(self, wanted: Wanted) -> NamedLinop | None:
        """Return the operator if there is a library for the device."""
        can_run = wanted.is_asked or is_installed(wanted.locs.device.type)
        return FinufftTransform(wanted) if can_run else None
