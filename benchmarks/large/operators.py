"""Operators with n entries, and the shape of their input: ``OPERATORS[name](n)``.

Grids of two dimensions have rows of 4096 entries, or as many as there are; others one axis, so that
an index needs more than the 24 bits of a float32.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import torch

import linops_core as core
import linops_imaging as imaging
from linops_core import NamedLinop
from linops_split import batch_linop

Made: TypeAlias = tuple[NamedLinop, tuple[int, ...]]
ROW, FULL = ("N",), 4096


def grid(n: int) -> tuple[int, int]:
    return n // FULL, FULL


def weight(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def diagonal(n: int) -> NamedLinop:
    return core.Diagonal(weight(n), ROW)


def gathered(n: int) -> Made:
    at = (torch.arange(n // 2) * 7919 + 3) % n
    return core.Sampling([at], [n], output_shape=("K",), input_shape=ROW, batch_shape=()), (n,)


def interpolated(n: int) -> Made:
    # Exact in double precision only; in single precision they are 2 apart. None has a grid point at
    # the edge of its kernel, which is not 0 there.
    generator = torch.Generator().manual_seed(0)
    at = torch.rand(10**5, dtype=torch.float64, generator=generator) * n
    return core.Interpolate(at[:, None], [n], (), ("K",), ROW, pad_mode="circular"), (n,)


def tiled(n: int) -> Made:
    return batch_linop(diagonal(n), {"N": n // 4}), (n,)


def simple(n: int) -> Made:
    return core.SimpleLinop(lambda x: 2j * x, lambda x: -2j * x, ishape=ROW), (n,)


def angles(count: int) -> torch.Tensor:
    return torch.linspace(0.1, 2.9, count, dtype=torch.float64)


def cube(n: int) -> int:
    return round(math.cbrt(n))


def nufft(n: int) -> Made:
    generator = torch.Generator().manual_seed(0)
    locs = (torch.rand(10**5, 1, dtype=torch.float64, generator=generator) - 0.5) * n
    return imaging.NUFFT(locs, [n], ("K",), ROW, batch_shape=()), (n,)


def nufft_of_volumes(n: int) -> Made:
    generator = torch.Generator().manual_seed(0)
    side = cube(n)
    locs = (torch.rand(10**5, 3, dtype=torch.float64, generator=generator) - 0.5) * side
    return imaging.NUFFT(locs, [side] * 3, ("K",)), (side,) * 3


def convolved(n: int) -> Made:
    kernel = weight(5, 7)
    return core.Convolution(kernel, (), ("Nx", "Ny"), grid_size=grid(n)), grid(n)


def convolved_lines(n: int) -> Made:
    return core.Convolution(weight(9), (), ROW, grid_size=[n], padding_mode="circular"), (n,)


def cone(n: int) -> Made:
    side = cube(n)
    rays = imaging.ConeBeam(angles(2), (side, side), (side,) * 3, 2.0 * side, 1.0 * side)
    return rays, (side,) * 3


def parallel_3d(n: int) -> Made:
    side = cube(n)
    return imaging.ParallelBeam3D(angles(2), (side, side), (side,) * 3), (side,) * 3


def fan(n: int) -> Made:
    side = math.isqrt(n)
    return imaging.FanBeam(angles(8), side, side, 2.0 * side, 1.0 * side), (side, side)


def parallel(n: int) -> Made:
    side = math.isqrt(n)
    return imaging.ParallelBeam(angles(8), side, side), (side, side)


OF_OTHER_ARGUMENTS: Mapping[str, Callable[[int], Made]] = {
    "Add": lambda n: (diagonal(n) + core.Roll(ROW, [n // 3], [n], shape=ROW), (n,)),
    "ArrayToBlocks": lambda n: (core.ArrayToBlocks([n], [64], [32]), (n,)),
    "BlockDiag": lambda n: (
        core.BlockDiag(diagonal(n // 2), diagonal(n // 2), idim="B", odim="C"),
        (n // 2, 2),
    ),
    "BlocksToArray": lambda n: (core.BlocksToArray([n], [64], [64]), (n // 64, 64)),
    "Chain": lambda n: (core.FFT(1, ()) @ core.Diagonal(weight(n), ("Nx",)), (n,)),
    "Concat": lambda n: (core.Concat(diagonal(n // 2), diagonal(n // 2), idim="N", odim="N"), (n,)),
    "Convolution": convolved,
    "Convolution along lines": convolved_lines,
    "Crop": lambda n: (core.Crop([n - 5], [n], ROW, ("M",), ()), (n,)),
    "Dense": lambda n: (
        core.Dense(weight(4, 8), ("C", "D"), ("D", "N"), ("C", "N")),
        (8, n // 8),
    ),
    "Dense with long rows": lambda n: (
        core.Dense(weight(2, n), ("C", "N"), ROW, ("C",)),
        (n,),
    ),
    "Downsample": lambda n: (core.Downsample(ROW, [3], [n], [1], shape=ROW), (n,)),
    "Embed": lambda n: (core.Embed({"N": slice(3, n + 3)}, [n + 9], shape=ROW), (n,)),
    "FFT": lambda n: (core.FFT(1, (), centered=True), (n,)),
    "FFT of planes": lambda n: (core.FFT(2, (), norm="backward"), grid(n)),
    "FourierShift": lambda n: (core.FourierShift(ROW, [0.25], shape=ROW), (n,)),
    "HStack": lambda n: (core.HStack(diagonal(n), diagonal(n), idim="M"), (n, 2)),
    "Interpolate": interpolated,
    "Kronecker": lambda n: (
        core.Kronecker(
            core.Dense(weight(3, 4), ("A", "B"), ("B",), ("A",)),
            core.Diagonal(weight(n // 4), ROW),
        ),
        (4, n // 4),
    ),
    "Pad": lambda n: (core.Pad([n + 5], [n], ROW, ("M",), ()), (n,)),
    "PadDim": lambda n: (core.PadDim("N", n, n + 7, ROW, ("N",), before=3), (n,)),
    "PadLast": lambda n: (core.PadLast([n + 5], [n], ROW, ("M",), ()), (n,)),
    "RealForm": lambda n: (core.RealForm(diagonal(n)), (2, n)),
    "Rearrange": lambda n: (core.Rearrange("a b", "b a", ("A", "B"), ("B", "A")), grid(n)),
    "Repeat": lambda n: (core.Repeat({"C": 3}, ROW, ("C", "N")), (n,)),
    "Roll": lambda n: (core.Roll(ROW, [-(n // 3)], [n], shape=ROW), (n,)),
    "Sampling": gathered,
    "Scalar": lambda n: (core.Scalar(1.5 - 2j, ROW), (n,)),
    "SimpleLinop": simple,
    "Slice": lambda n: (core.Slice({"N": slice(5, n, 2)}, [n], shape=ROW), (n,)),
    "Stack": lambda n: (core.Stack(diagonal(n), diagonal(n), odim_and_idx=("C", 0)), (n,)),
    "SumReduce": lambda n: (core.SumReduce(("C", "N"), ("C",), sizes={"N": n // 2}), (2, n // 2)),
    "Truncate": lambda n: (core.Truncate("N", n, n - 7, ROW, ("N",), before=3), (n,)),
    "Upsample": lambda n: (core.Upsample(ROW, [2], [2 * n], [1], shape=ROW), (n,)),
    "VStack": lambda n: (core.VStack(diagonal(n), diagonal(n), odim="M"), (n,)),
    "Zero": lambda n: (core.Zero(ROW, ROW), (n,)),
    "ConeBeam": cone,
    "FanBeam": fan,
    "NUFFT": nufft,
    "NUFFT of volumes": nufft_of_volumes,
    "ParallelBeam": parallel,
    "ParallelBeam3D": parallel_3d,
    "SymmetrizedGradient": lambda n: (
        imaging.SymmetrizedGradient(("Nx", "Ny"), grid(n // 2)),
        (2, *grid(n // 2)),
    ),
    "Wavelet": lambda n: (imaging.Wavelet("db4", ("Nx", "Ny"), grid(n)), grid(n)),
    "Wavelet along lines": lambda n: (imaging.Wavelet("db4", ROW, [n]), (n,)),
    "Tiled": tiled,
}

# Of real tensors only, or in the plainest case.
REAL = {"AsComplex", "RealFFT", "ConeBeam", "FanBeam", "ParallelBeam", "ParallelBeam3D", "RealForm"}
# Several devices or ranks, which have programs of their own.
ELSEWHERE = {"BatchedLinop", "DeviceReplica", "ToDevice", "DistributedLinop"}
# Their weights are read when they are made, so that they have no form on the meta device.
READS_WEIGHTS = {"Sampling", "Interpolate", "NUFFT", "NUFFT of volumes"}
# Steps over planes and views, each of which takes a meta device as long as a small tensor.
MANY_STEPS = {"ConeBeam", "ParallelBeam3D"}


def usual_arguments(n: int) -> dict[str, Any]:
    """Return arguments by the names that parameters have in all operators, for one axis."""
    names = dict.fromkeys(["dims", "shape", "ishape", "ioshape"], ROW)
    return {**names, "dim": "N", "size": n, "sizes": [n], "weight": weight(n)}


def by_usual_arguments(cls: Callable[..., NamedLinop], n: int) -> Made:
    """Return the operator that a class makes of those of the usual arguments that it takes."""
    takes, usual = inspect.signature(cls).parameters, usual_arguments(n)
    return cls(**{name: usual[name] for name in takes if name in usual}), (n,)


def needs_no_other(cls: Callable[..., NamedLinop]) -> bool:
    """Whether a class can be made of the usual arguments."""
    try:
        by_usual_arguments(cls, 16)
    except (TypeError, ValueError):
        return False
    return True


def all_operators() -> dict[str, Callable[[int], Made]]:
    """Return how each entry is made, and those of other operators that need no entry."""
    operators = import_module("test_what_is_missing").operators
    public = {
        name: getattr(module, name)
        for module in (core, imaging)
        for _, name in operators(module.__name__)
        if name not in OF_OTHER_ARGUMENTS
    }
    usual = {
        name: partial(by_usual_arguments, c) for name, c in public.items() if needs_no_other(c)
    }
    return {**usual, **OF_OTHER_ARGUMENTS}


OPERATORS = all_operators()


def random_input(name: str, shape: tuple[int, ...]) -> Any:
    dtype = torch.float32 if name in REAL else torch.complex64
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
