"""The NUFFT by an oversampled FFT and an interpolation, with a table of its weights or without."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from linops_core import Chain, Interpolate, NamedLinop

from ._kaiser_bessel import LEAST_OF_SINGLE, Gridding, fastest_gridding
from ._method import Method, Wanted, interpolate_of
from ._oversampled_fft import OversampledFFT
from ._toeplitz import Phases

# Points that are gridded at a time for a kernel, at least: their weights are in memory.
_POINTS = 2**12


class ByInterpolation(Method):
    """The weights are computed in each call. It can always run, and is the last that is tried."""

    name = "interpolate"

    def rank(self, wanted: Wanted) -> int:
        """Return the last place."""
        return 3

    def make(self, wanted: Wanted) -> NamedLinop | None:
        """Return the operator; if not asked for, it keeps weights along each axis that fit."""
        return gridded_transform(wanted._replace(table_budget=0) if wanted.is_asked else wanted)

    def adjoint(self, wanted: Wanted) -> Callable[[Phases], Tensor] | None:
        """Return the adjoint, which grids some points at a time."""
        locs = wanted.locs
        dtype = torch.complex128 if self.needs_double(wanted) else torch.complex64
        # Adding up grids then takes less than gridding, and points less memory than the grid.
        step = max(_POINTS, math.prod(_gridding(wanted).padded) // 64)

        def images(phases: Phases) -> Tensor:
            total: Tensor | None = None
            for start in range(0, max(1, len(locs)), step):  # also without points
                points = slice(start, start + step)
                some = gridded_transform(wanted._replace(locs=locs[points]))
                fourier, interpolate = cast(Chain, some).linops
                part = interpolate.H(phases.at(points).to(dtype))
                total = part if total is None else total.add_(part)
                del part  # before the next one is made
            assert total is not None
            return fourier.H(total)

        return images

    def needs_double(self, wanted: Wanted) -> bool:
        """Return whether the fastest way that keeps ``tol`` is one in double precision."""
        single = _gridding(wanted).error(wanted.sizes, torch.float32)
        return wanted.given is None and single > wanted.tol

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

    def rank(self, wanted: Wanted) -> int:
        """Return a place before or behind finufft."""
        is_fast = len(wanted.sizes) < 3 and wanted.is_for_coils and wanted.tol >= LEAST_OF_SINGLE
        return 0 if is_fast or wanted.locs.device.type != "cpu" else 2

    def adjoint(self, wanted: Wanted) -> Callable[[Phases], Tensor] | None:
        """Return None: few images share the locations of a kernel."""
        return None

    def make(self, wanted: Wanted) -> NamedLinop | None:
        """Return the operator if there is a table; without locations none is needed."""
        operand = gridded_transform(wanted)
        interpolate = interpolate_of(operand)
        if interpolate.table_nbytes or (wanted.is_asked and not wanted.locs.numel()):
            return operand
        if not wanted.is_asked:
            return None
        unlimited = gridded_transform(wanted._replace(table_budget=2**62))
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


def gridded_transform(wanted: Wanted) -> NamedLinop:
    """Return a NUFFT as a chain: an oversampled FFT, and an interpolation."""
    names, sizes, way = wanted.names, wanted.sizes, _gridding(wanted)
    interpolate = Interpolate(
        wanted.locs,
        way.padded,
        width=way.width,
        dims=names.result,
        shape=None if names.is_free else names.output,
        to=wanted.points,
        kernel_params={"beta": way.beta, "scaled": True},  # in single precision I_0^3 overflows
        scale=[larger / size for larger, size in zip(way.padded, sizes, strict=True)],
        table_budget=wanted.table_budget,
    )
    return interpolate @ OversampledFFT(names, sizes, way)


def _gridding(wanted: Wanted) -> Gridding:
    return wanted.given or fastest_gridding(wanted.tol, wanted.sizes)
