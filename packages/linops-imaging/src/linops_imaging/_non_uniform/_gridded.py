"""The NUFFT by an oversampled FFT and an interpolation, with a table of its weights or without."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from linops_core import Chain, Interpolate, NamedLinop

from ._kaiser_bessel import LEAST_OF_SINGLE, Gridding, fastest_gridding
from ._method import Method, NufftRequest, interpolate_of
from ._oversampled_fft import OversampledFFT
from ._toeplitz import Phases

# Points that are gridded at a time for a kernel, at least: their weights are in memory.
_POINTS = 2**12


class ByInterpolation(Method):
    """The weights are computed in each call. It can always run, and is the last that is tried."""

    name = "interpolate"

    def rank(self, request: NufftRequest) -> int:
        """Return the last place."""
        return 3

    def make(self, request: NufftRequest) -> NamedLinop | None:
        """Return the operator; if not asked for, it keeps weights along each axis that fit."""
        return gridded_transform(
            request._replace(table_budget=0) if request.is_named_by_user else request
        )

    def adjoint(self, request: NufftRequest) -> Callable[[Phases], Tensor] | None:
        """Return the adjoint, which grids some points at a time."""
        locs = request.locs
        dtype = torch.complex128 if self.needs_double(request) else torch.complex64
        # Adding up grids then takes less than gridding, and points less memory than the grid.
        step = max(_POINTS, math.prod(_gridding(request).padded) // 64)

        def images(phases: Phases) -> Tensor:
            total: Tensor | None = None
            for start in range(0, max(1, len(locs)), step):  # also without points
                points = slice(start, start + step)
                some = gridded_transform(request._replace(locs=locs[points]))
                fourier, interpolate = cast(Chain, some).linops
                part = interpolate.H(phases.at(points).to(dtype))
                total = part if total is None else total.add_(part)
                del part  # before the next one is made
            assert total is not None
            return fourier.H(total)

        return images

    def needs_double(self, request: NufftRequest) -> bool:
        """Return whether the fastest way that keeps ``tol`` is one in double precision."""
        single = _gridding(request).error(request.sizes, torch.float32)
        return request.gridding is None and single > request.tol

    def note(self, interpolate: Interpolate) -> str:
        """Return whether there is a table now."""
        return "table" if interpolate.table_nbytes else "interpolate"


class ByTable(ByInterpolation):
    """The weights are kept.

    On a CPU a table takes less time than finufft for images in one and two dimensions that share
    it, in single precision, for any number of locations and threads, as
    `benchmarks/bench_nufft.py` measures. Data that need a small ``tol`` are in double precision.
    On a GPU, of which few measurements are known, a table is taken if there is one.
    """

    name = "table"

    def rank(self, request: NufftRequest) -> int:
        """Return a place before or behind finufft."""
        is_fast = len(request.sizes) < 3 and request.is_for_coils and request.tol >= LEAST_OF_SINGLE
        return 0 if is_fast or request.locs.device.type != "cpu" else 2

    def adjoint(self, request: NufftRequest) -> Callable[[Phases], Tensor] | None:
        """Return None: few images share the locations of a kernel."""
        return None

    def make(self, request: NufftRequest) -> NamedLinop | None:
        """Return the operator if there is a table; without locations none is needed."""
        operand = gridded_transform(request)
        interpolate = interpolate_of(operand)
        if interpolate.table_nbytes or (request.is_named_by_user and not request.locs.numel()):
            return operand
        if not request.is_named_by_user:
            return None
        unlimited = gridded_transform(request._replace(table_budget=2**62))
        if not (nbytes := interpolate_of(unlimited).table_nbytes):
            raise ValueError(
                'NUFFT: method="table" needs locations that do not require gradients and were not '
                'made in torch.inference_mode, got others; use method="auto"'
            )
        raise ValueError(
            f"NUFFT: table_budget must be at least {nbytes} bytes for this table, got "
            f"{interpolate.table_budget}; raise it, choose a smaller width or a larger tol, or "
            'method="auto"'
        )


def gridded_transform(request: NufftRequest) -> NamedLinop:
    """Return a NUFFT as a chain: an oversampled FFT, and an interpolation."""
    names, sizes, way = request.names, request.sizes, _gridding(request)
    interpolate = Interpolate(
        request.locs,
        way.padded,
        width=way.width,
        dims=names.result,
        shape=None if names.is_free else names.output,
        to=request.points,
        kernel_params={"beta": way.beta, "scaled": True},  # in single precision I_0^3 overflows
        scale=[larger / size for larger, size in zip(way.padded, sizes, strict=True)],
        table_budget=request.table_budget,
    )
    return interpolate @ OversampledFFT(names, sizes, way)


def _gridding(request: NufftRequest) -> Gridding:
    return request.gridding or fastest_gridding(request.tol, request.sizes)
