"""Plans of finufft on a CPU, and of cufinufft on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from linops_core.siblings import FakeTensor, dtype_of_sums, steps_that_differ

from .._extras import optional_module
from ._kaiser_bessel import check_tol

LIBRARIES = {"cpu": "finufft", "cuda": "cufinufft"}
"""The library for each type of device; the extra of this package has the same name."""

# (upsampling, kernel width, error): the largest error of an entry in one dimension and double
# precision, for any size. `benchmarks/bench_nufft.py` measures them, here with finufft 2.5.1. The
# library's own eps bounds the norm of the error, and entries are off by up to 18 times of that. By
# itself the library chooses the upsampling for each direction, and then the adjoint is not matched.
ACCURACY: Sequence[tuple[float, int, float]] = (
    (1.25, 2, 4.4e-1),
    (1.25, 3, 1.1e-1),
    (1.25, 4, 2.8e-2),
    (1.25, 5, 1.2e-2),
    (1.25, 6, 2.1e-3),
    (1.25, 7, 5.2e-4),
    (1.25, 8, 1.8e-4),
    (1.25, 9, 3.3e-5),
    (1.25, 10, 8.4e-6),
    (1.25, 11, 1.9e-6),
    (1.25, 12, 8.4e-7),
    (1.25, 13, 1.3e-7),
    (1.25, 14, 4.8e-8),
    (2.0, 8, 2.5e-7),
    (2.0, 9, 3.1e-8),
    (2.0, 10, 2.7e-9),
    (2.0, 11, 2.8e-10),
    (2.0, 12, 4.3e-11),
    (2.0, 13, 4.2e-12),
    (2.0, 14, 5.5e-13),
)

# In single precision the library makes no wider kernels.
_WIDEST_SINGLE = 8

# The weight of a pixel at the edge of the image, which compensates the kernel, multiplies the
# rounding of values on the grid, in each direction. Above this, the adjoint is not matched to 8
# digits (single) and 13 (double precision).
_ROUNDING = {torch.complex64: 2e-3, torch.complex128: 2e-10}

# Points whose angles are computed at a time: temporary tensors between kept ones leave holes.
_POINTS = 2**15


class PlanPrecision(NamedTuple):
    """How a plan computes."""

    dtype: torch.dtype
    upsampling: float
    width: int

    def eps(self, n_axes: int) -> float:
        """Return the accuracy for which the library chooses this width; it was found by trials."""
        rate = math.pi * math.sqrt(1 - 1 / self.upsampling)
        return 0.18 * 1.4 ** (n_axes - 1) * math.exp(-rate * (self.width - 1)) * 1.02

    def rounding(self, n_axes: int) -> float:
        """Return the rounding of an entry at the edges of the image, without that of angles."""
        beta = math.pi * self.width * (1 - 1 / (2 * self.upsampling))
        at_edge = math.sqrt(beta**2 - (math.pi * self.width / (2 * self.upsampling)) ** 2)
        edge = (math.sinh(beta) / beta) / (math.sinh(at_edge) / at_edge)
        return torch.finfo(self.dtype).eps * edge**n_axes / 4

    def largest_error(self, sizes: Sequence[int]) -> float:
        """Return a bound of the error of an entry, infinite if too much is lost by rounding."""
        rounding = self.rounding(len(sizes))
        if rounding > _ROUNDING[self.dtype] or (
            self.dtype == torch.complex64 and self.width > _WIDEST_SINGLE
        ):
            return math.inf
        error = next(row[2] for row in ACCURACY if row[:2] == self[1:])
        angles = 2.5 * torch.finfo(self.dtype).eps * sum(sizes)  # they grow with the image
        return float((1 + error) ** len(sizes) - 1 + angles + rounding)


def plan_precisions(dtype: torch.dtype) -> list[PlanPrecision]:
    """Return all ways for data of this dtype, the fastest first."""
    dtypes = dict.fromkeys((dtype, torch.complex128))  # upsampling 2 in single is slower than 1.25
    steps = {upsampling for upsampling, *_ in ACCURACY}
    return [
        PlanPrecision(precision, upsampling, width)
        for least in sorted(steps)
        for precision in dtypes
        for upsampling, width, _ in ACCURACY
        if upsampling == least and not (least > min(steps) and precision != torch.complex128)
    ]


def least_tol(sizes: Sequence[int]) -> float:
    """Return the smallest error of an entry that a plan can have."""
    return min(way.largest_error(sizes) for way in plan_precisions(torch.complex128))


@cache
def fastest_plan_precision(tol: float, sizes: tuple[int, ...], dtype: torch.dtype) -> PlanPrecision:
    """Return the fastest way for which no entry is off by more than ``tol``.

    Where single precision cannot keep it, the plan is in double precision.
    """
    check_tol(tol, least_tol(sizes), sizes)
    return next(way for way in plan_precisions(dtype) if way.largest_error(sizes) <= tol)


def library_for(device_type: str) -> Any:
    """Return the library that computes on such a device, if it is installed."""
    name = LIBRARIES[device_type]
    return optional_module(name, "NUFFT", name)


def is_installed(device_type: str) -> bool:
    """Return whether there is a library for such a device."""
    return device_type in LIBRARIES and find_spec(LIBRARIES[device_type]) is not None


class PlanPair:
    """A transform of images and its adjoint for some locations, (P, D).

    The library transforms n images at a time. The locations are sorted once, for both directions.
    On a GPU there is a plan for each direction; it runs on the current stream of its first call.
    """

    def __init__(self, locs: Tensor, sizes: Sequence[int], n: int, way: PlanPrecision) -> None:
        self._sizes, self._n, self._way, self._device = tuple(sizes), n, way, locs.device
        self._is_fake = isinstance(locs, FakeTensor)
        self._lock = Lock()
        self._executes: dict[bool, Callable[..., object]] = {}
        # The library reads them in each call.
        self._angles = locs.new_empty(len(sizes), len(locs), dtype=way.dtype.to_real())
        self._lost: Tensor | None = None
        for at, size, angles in zip(locs.unbind(-1), sizes, self._angles, strict=True):
            for some, into in zip(at.split(_POINTS), angles.split(_POINTS), strict=True):
                turns = some.double() / size
                turns -= turns.round()
                into.copy_(turns.mul_(2 * math.pi))
        if self._is_fake:  # the order of the locations is a part of the memory
            self._order = locs.new_empty(len(locs), dtype=torch.int64)
        elif not self._angles.sum().isfinite():
            # Locations were changed to these. The library would leave its memory.
            self._lost = ~self._angles.isfinite().all(0)
            self._angles[:, self._lost] = 0

    def apply(self, x: Tensor, into: Tensor, *, is_back: bool) -> None:
        """Write the transforms of x, (B, ...), into ``into``; B must be a multiple of n."""
        with self._lock:
            steps = zip(x.split(self._n), into.split(self._n), strict=True)
            for some, result in steps_that_differ(x, steps, lambda step: step[0].shape):
                if self._n == 1:
                    some, result = some[0], result[0]
                self._apply_plan(some, result, is_back=is_back)
            if self._lost is not None:
                into.masked_fill_(self._lost.any() if is_back else self._lost, math.nan)

    def _apply_plan(self, x: Tensor, into: Tensor, *, is_back: bool) -> None:
        """Write the transforms of n images into ``into``."""
        data, out = self._converted(x), self._converted(into)
        if self._is_fake:
            padded = math.prod([math.ceil(self._way.upsampling * n) for n in self._sizes])
            n_grids = min(self._n, torch.get_num_threads() if x.is_cpu else 8)
            x.new_empty(n_grids, padded, dtype=self._way.dtype)
        elif self._device.type == "cpu":
            self._execute(is_back)(data.numpy(), out=out.numpy())
        else:
            self._execute(is_back)(data, out)
        if out is not into:
            into.copy_(out)

    def _is_crowded(self) -> bool:
        parts = self._angles[0].split(2**20)
        cells = ((part * (self._sizes[0] / (2 * math.pi))).floor().long() for part in parts)
        return dtype_of_sums(self._way.dtype, len(self._angles[0]), cells) != self._way.dtype

    def _converted(self, x: Tensor) -> Tensor:
        return x.to(self._way.dtype).contiguous().resolve_conj().resolve_neg()

    def _execute(self, is_back: bool) -> Callable[..., object]:
        """Return the function of the library for one direction."""
        if is_back not in self._executes:
            library = library_for(self._device.type)
            way, n_axes = self._way, len(self._sizes)
            kind, sign = (1, 1) if is_back and self._device.type != "cpu" else (2, -1)
            make = partial(library.Plan, kind, self._sizes, self._n, way.eps(n_axes), sign)
            options: dict[str, Any] = {
                "dtype": str(way.dtype).removeprefix("torch."),
                "upsampfac": way.upsampling,
            }
            if self._device.type == "cpu":
                # It adds the points of a part one by one, and then the parts. As many points as
                # parts have the smallest rounding: with its default, 4,000 spokes of 256 points
                # err by 2e-3 in single precision, with these by 2e-5, in the same time.
                options["spread_max_sp_size"] = max(256, math.isqrt(self._angles.shape[1]))
                if n_axes == 1 and self._is_crowded():
                    options["spread_sort"] = 1  # else it makes no parts of a line
                # It warns of more threads than OMP_NUM_THREADS.
                plan = make(**options, nthreads=torch.get_num_threads(), showwarn=0)
                plan.setpts(*(at.numpy() for at in self._angles))
                self._executes = {False: plan.execute, True: plan.execute_adjoint}
            else:
                stream = torch.cuda.current_stream(self._device).cuda_stream
                plan = make(**options, gpu_device_id=self._device.index, gpu_stream=stream)
                plan.setpts(*self._angles)
                self._executes[is_back] = plan.execute
        return self._executes[is_back]
