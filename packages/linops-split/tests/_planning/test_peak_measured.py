"""What is predicted without data, against the allocations that torch's profiler records.

C coils, B batches, Nx Ny image, K samples.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from linops_core import (
    FFT,
    ArrayToBlocks,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    Interpolate,
    NamedLinop,
    RealFFT,
    Sampling,
)
from linops_split import batch_linop
from linops_split._planning._peak import peak_nbytes
from linops_split._planning._plan import plan_batches

Function = Callable[..., Tensor]


@pytest.fixture(autouse=True, scope="module")
def freed_memory_is_kept() -> None:
    """Has an operator ask for memory that nobody writes to, as each process does before long."""
    Identity(("N",))(torch.empty(2**23))


def allocated(work: Callable[[], object]) -> int:
    """Return the most bytes that torch's allocator hands out at a time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    results: Any = profiler.profiler.kineto_results
    events = sorted(_allocations(results.experimental_event_tree()))
    now = highest = 0
    for _, nbytes in events:
        now += nbytes
        highest = max(highest, now)
    return highest


def _allocations(events: list[Any]) -> Iterator[tuple[int, int]]:
    for event in events:
        if hasattr(event.extra_fields, "alloc_size"):
            yield event.start_time_ns, event.extra_fields.alloc_size
        yield from _allocations(event.children)


def predicted(function: Function, *tensors: Tensor) -> int:
    mode = FakeTensorMode()
    fakes = [mode.from_tensor(tensor) for tensor in tensors]
    with mode:
        return peak_nbytes(lambda: function(*fakes))[torch.device("cpu")]


def complex_noise(*lengths: int) -> Tensor:
    return torch.randn(lengths, dtype=torch.complex64)


def test_the_measure_sees_what_is_allocated() -> None:
    x = torch.zeros(1000)
    assert 8000 <= allocated(lambda: (x + 1) * 2) <= 8016  # with the numbers as tensors
    assert allocated(lambda: x[1:]) == 0


MATRIX, BATCH, REAL = complex_noise(48, 48), complex_noise(4, 24, 24), torch.randn(48, 48)


@pytest.mark.parametrize(
    ("function", "tensors"),
    [
        (lambda a, b: a * b, (MATRIX, REAL)),
        (lambda a, b: a + b, (MATRIX, REAL.double())),
        (lambda a, b: a * (b > 0), (MATRIX, REAL)),
        (lambda a: torch.where(a > 0, a, 0), (REAL,)),
        (lambda a: torch.complex(a, a), (REAL,)),
        (lambda a: a.sum(0, dtype=torch.float64), (REAL,)),
        (lambda a: (a > 0).sum(), (REAL,)),
        (lambda a: a.cumsum(0, dtype=torch.float64), (REAL,)),
        (lambda a: a.conj() * a, (MATRIX,)),
        (lambda a: a @ a, (MATRIX,)),
        (lambda a: a.conj() @ a, (MATRIX,)),
        (lambda a: a.mH @ a, (MATRIX,)),
        (lambda a: a[::2, ::2] @ a[::2, ::2], (MATRIX,)),
        (lambda a: a.conj() @ a[0], (MATRIX,)),
        (lambda a: a @ a, (BATCH,)),
        (lambda a: a.conj() @ a.mH, (BATCH,)),
        (lambda a: a[:, ::2, ::2] @ a[:, ::2, ::2], (BATCH,)),
        (lambda a: torch.einsum("ij,bjk->bik", a[0], a), (BATCH,)),
        (lambda a: a.sort(), (REAL,)),
        (lambda a: a.argsort(stable=True), (REAL.flatten(),)),
        (lambda a: a.roll(1), (MATRIX,)),
        (lambda a: a.roll(1, 0), (MATRIX,)),
        (lambda a: a.roll((1, 2, 3), (0, 1, 2)), (BATCH,)),
        (lambda a: torch.fft.fftshift(a), (BATCH,)),
        (lambda a: torch.fft.fftn(a), (BATCH,)),
        (lambda a: torch.fft.fftn(a, dim=1), (BATCH,)),
        (lambda a: torch.fft.fftn(a, dim=0), (BATCH,)),
        (lambda a: torch.fft.fftn(a.mT, dim=(0, 2)), (BATCH,)),
        (lambda a: torch.fft.rfftn(a, dim=(0, 1)), (REAL,)),
        (lambda a: torch.fft.irfftn(a, dim=-1), (BATCH,)),
        (lambda a: torch.fft.irfftn(a, dim=(1, 2)), (BATCH,)),
        (lambda a: torch.fft.irfftn(a), (BATCH,)),
        *[
            (lambda a, dims=dims: torch.fft.irfftn(a, dim=dims), (x,))
            for dims in ((0, 2), (1, 2), (0, 1), (2, 1), (1, 0), (2, 0), (2, 1, 0), (0, 1, 2))
            for x in (BATCH, BATCH.mT, complex_noise(3, 7, 5))
        ],
    ],
)
def test_what_operations_allocate_inside_is_known(
    function: Function, tensors: tuple[Tensor, ...]
) -> None:
    assert predicted(function, *tensors) == allocated(lambda: function(*tensors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("channels", [1, 2, 4, 24])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_what_convolutions_of_planes_allocate_inside_is_known(
    ndim: int, channels: int, step: int, dtype: torch.dtype
) -> None:
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[ndim - 1]
    x = torch.randn(1, channels, *(16,) * (ndim - 1), 16 * step, dtype=dtype)[..., ::step]
    kernel = torch.randn(channels, 1, *(3,) * ndim, dtype=dtype)

    def work(x: Tensor, kernel: Tensor) -> Tensor:
        return convolve(x, kernel, padding=1, groups=channels)

    result, measured = predicted(work, x, kernel), allocated(lambda: work(x, kernel))
    assert result == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("ndim", "channels", "is_last", "taps"),
    [
        *[(2, 1, False, 5), (2, 2, True, 3), (2, 24, True, 5), (2, 2, False, 9)],
        *[(3, 1, False, 5), (3, 2, True, 3), (3, 24, True, 5), (3, 2, False, 9)],
        *[(1, 2, False, 15), (1, 16, False, 31)],
    ],
)
def test_what_other_convolutions_of_planes_allocate_inside_is_known(
    ndim: int, channels: int, is_last: bool, taps: int
) -> None:
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[ndim - 1]
    x = torch.randn(1, channels, *(16,) * ndim)
    if is_last:
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    kernel = torch.randn(channels, 1, *(taps,) * ndim)

    def work(x: Tensor, kernel: Tensor) -> Tensor:
        return convolve(x, kernel, padding=taps // 2, groups=channels)

    result, measured = predicted(work, x, kernel), allocated(lambda: work(x, kernel))
    assert result == pytest.approx(measured, rel=0.15)


MAPS = complex_noise(8, 64, 64)
IMAGE = ("Nx", "Ny")
COILS = Dense(MAPS, ("C", *IMAGE), IMAGE, ("C", *IMAGE))
MASK = torch.rand(64, 64, generator=torch.Generator().manual_seed(0)) < 0.25
LARGE = complex_noise(8, 256, 256)
LARGE_MASK = torch.rand(256, 256, generator=torch.Generator().manual_seed(0)) < 0.25
LOCS = 64 * torch.rand(2000, 2, generator=torch.Generator().manual_seed(0))

OPERATORS: dict[str, tuple[NamedLinop, dict[str, int], dict[str, int]]] = {
    "SENSE": (Sampling.from_mask(MASK) @ FFT(2, centered=True) @ COILS, {"C": 2}, {}),
    "SENSE, which works slice by slice": (
        Sampling.from_mask(LARGE_MASK)
        @ FFT(2, centered=True)
        @ Dense(LARGE, ("C", *IMAGE), IMAGE, ("C", *IMAGE)),
        {"C": 2},
        {},
    ),
    "SENSE with a mask": (
        Diagonal(MASK.float(), ("...", "Kx", "Ky")) @ FFT(2) @ COILS,
        {"C": 3},
        {},
    ),
    "non-Cartesian SENSE": (
        Interpolate(LOCS, (64, 64)) @ FFT(2) @ COILS,
        {"C": 2, "K": 500},
        {},
    ),
    "matrix": (Dense(complex_noise(200, 300), ("M", "N")), {"M": 60, "N": 100}, {}),
    "matrix, columns": (Dense(complex_noise(200, 300), ("M", "N")), {"N": 50}, {}),
    "matrices": (
        Dense(complex_noise(8, 30, 40), ("C", "M", "N"), ("B", "C", "N"), ("B", "C", "M")),
        {"C": 1, "M": 7},
        {"B": 9},
    ),
    "Fourier transform": (
        FFT(2, centered=True) @ Diagonal(MAPS, ("C", *IMAGE)),
        {"C": 3},
        {},
    ),
    "convolution": (
        Convolution(complex_noise(5, 5), ("C",)) @ Diagonal(MAPS, ("C", "Nx", "Ny")),
        {"C": 2},
        {},
    ),
    "convolution, valid, of volumes": (
        Convolution(torch.randn(2, 3, 1), mode="valid", grid_size=(12, 12, 33)),
        {},
        {},
    ),
    "convolution along the first axis": (
        Convolution(torch.randn(3), dims=("X",), shape=("X", "Y", "Z")),
        {"Z": 10},
        {"X": 32, "Y": 36, "Z": 40},
    ),
    "convolution of frames along two axes": (
        Convolution(torch.randn(5, 4).double(), dims=("X", "Y"), shape=("X", "T", "Y")),
        {"T": 10},
        {"X": 32, "Y": 36, "T": 40},
    ),
    "sampling along the first axes": (
        Sampling.from_mask(MASK, dims=("X", "Y"), shape=("X", "Y", "Z")),
        {"Z": 2},
        {"Z": 8},
    ),
    "real Fourier transform": (
        RealFFT(("X", "Y"), 40, shape=("X", "Y", "Z")),
        {"Z": 4},
        {"X": 24, "Y": 40, "Z": 16},
    ),
    "blocks": (
        ArrayToBlocks((64, 64), (8, 8), (4, 4), batch_shape=("C",))
        @ Diagonal(MAPS, ("C", "Nx", "Ny")),
        {"C": 2},
        {},
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("work", ["forward", "adjoint", "normal"])
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_peaks_of_operators_are_predicted_within_15_percent(
    name: str, is_cut: bool, work: str
) -> None:
    A, batch_sizes, sizes = OPERATORS[name]
    x = complex_noise(*(sizes.get(str(dim), A.size(dim) or 0) for dim in A.ishape))
    like = x = x.real.contiguous() if isinstance(A, RealFFT) else x
    if work == "adjoint":
        x = torch.randn_like(A(x))  # with its strides
    A = copy.deepcopy(A)  # which keeps nothing of other calls
    linop = batch_linop(A, batch_sizes, sizes=sizes) if is_cut else A
    plan = plan_batches(linop, 2**40, work=work, like=like)
    with torch.no_grad():
        run = {"forward": linop, "adjoint": linop.H, "normal": linop.N}[work]
        measured = allocated(lambda: run(x))
    assert plan.peak == pytest.approx(measured, rel=0.15)


def crossing_spokes(n: int, size: int) -> Tensor:
    """Return the locations of 65 points on each of n diameters of a square grid."""
    angles, radii = torch.arange(n) * torch.pi / n, torch.linspace(-0.5, 0.5, 65)
    directions = torch.stack([angles.cos(), angles.sin()], -1)
    return (size * (0.5 + radii[:, None, None] * directions)).reshape(-1, 2)


@pytest.mark.parametrize(
    ("n_spokes", "size", "n_images", "budget"),
    [(100, 128, 16, 2**28), (400, 64, 1, 2**28), (400, 64, 4, 0), (5, 16, 1, 0)],
    ids=["sums", "table", "steps", "count"],
)
def test_peaks_of_gridding_of_crossing_spokes_are_predicted(
    n_spokes: int, size: int, n_images: int, budget: int
) -> None:
    locs = crossing_spokes(n_spokes, size)
    A = Interpolate(locs, (size, size), batch_shape=("C",), table_budget=budget)
    plan = plan_batches(A, 2**40, work="adjoint", like=complex_noise(n_images, size, size))
    y = complex_noise(n_images, 65 * n_spokes)
    with torch.no_grad():
        measured = allocated(lambda: A.H(y))
    assert 0.95 * measured <= plan.peak <= 1.02 * measured


def test_the_adjoint_of_a_copy_that_was_planned_is_predicted() -> None:
    """The copy counts the samples of each point once, for the plan."""
    A = copy.deepcopy(Sampling.from_mask(MASK))
    linop = A.H
    plan = plan_batches(A, 2**40, work="adjoint", like=complex_noise(64, 64))
    y = complex_noise(int(MASK.sum()))
    with torch.no_grad():
        assert plan.peak == pytest.approx(allocated(lambda: linop(y)), rel=0.02)
