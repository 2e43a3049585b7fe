import math
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from linops_core import FFT, NamedLinop, SplitError
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import NUFFT, trajectories
from linops_imaging._non_uniform import _nufft, _oversampled_fft
from linops_imaging._non_uniform._kaiser_bessel import fastest_gridding
from linops_solvers import conjugate_gradients
from nameddim import ND


def locations(*lengths: int, sizes: Sequence[int], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(*lengths, len(sizes), dtype=torch.float64, generator=generator) - 0.5
    return unit * torch.tensor(sizes, dtype=torch.float64)


def matrix(locs: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the matrix of the exact sum, (points, pixels)."""
    result = torch.ones(len(locs), 1, dtype=torch.complex128)
    for n, at in zip(sizes, locs.double().unbind(-1), strict=True):
        r = torch.arange(n) - n // 2
        axis = torch.exp(-2j * math.pi / n * at.unsqueeze(1) * r) / math.sqrt(n)
        result = (result.unsqueeze(2) * axis.unsqueeze(1)).flatten(1)
    return result


@pytest.mark.compiled
class TestNUFFT(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        sizes = (4, 3)
        locs = nn.Parameter(locations(2, 3, sizes=sizes))
        return NUFFT(locs, sizes, ("S", "R"), batch_shape=("C",), method="interpolate")

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestNUFFTFrames(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = locations(2, 3, sizes=(4,))
        return NUFFT(locs, (4,), ("T", "K"), batch_shape=("C", "T"), width=3)

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestNUFFT3D(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        sizes = (3, 2, 2)
        return NUFFT(locations(3, sizes=sizes), sizes, ("K",), width=2)


sides = st.lists(st.integers(1, 4), min_size=1, max_size=3)


@given(sides, st.integers(0, 99))
def test_it_is_the_matrix_of_the_exact_sum(sizes: list[int], seed: int) -> None:
    locs = locations(3, sizes=sizes, seed=seed)
    locs[0] = torch.tensor(sizes) / 2
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), tol=1e-6)
    expected, bound = matrix(locs, sizes), 1e-6 / math.sqrt(math.prod(sizes))
    assert (A.to_dense() - expected).abs().max() <= bound
    assert (A.H.to_dense() - expected.mH).abs().max() <= bound


@pytest.mark.each_value
@pytest.mark.parametrize("tol", [3e-1, 5e-2, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 5e-12])
@pytest.mark.parametrize("sizes", [(64,), (13, 10), (5, 4, 3)])
def test_no_entry_is_off_by_more_than_tol(tol: float, sizes: tuple[int, ...]) -> None:
    locs = locations(40, sizes=sizes)
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), tol=tol)
    error = (A.to_dense() - matrix(locs, sizes)).abs().max() * math.sqrt(math.prod(sizes))
    assert error <= tol


@pytest.mark.parametrize("sizes", [(64,), (13, 10), (5, 4, 3)])
def test_single_precision_keeps_its_tol(sizes: tuple[int, ...]) -> None:
    locs, tol = locations(40, sizes=sizes).float(), 1e-4
    A = NUFFT(locs, sizes, ("K",), batch_shape=(), tol=tol)
    result = A.to_dense(dtype=torch.complex64)
    error = (result - matrix(locs, sizes)).abs().max() * math.sqrt(math.prod(sizes))
    assert result.dtype is torch.complex64 and error <= tol
    dottest(A, dtypes=[torch.float32, torch.complex64])


@pytest.mark.parametrize(("oversamp", "width"), [(1.5, 16.0), (2.0, 14.0)])
def test_the_widest_kernels_stay_in_the_range_of_single_precision(
    oversamp: float, width: float
) -> None:
    locs = 4 * torch.rand(9, 3) - 2
    A = NUFFT(locs, (4, 4, 4), ("K",), oversamp=oversamp, width=width)
    exact = NUFFT(locs.double(), (4, 4, 4), ("K",), oversamp=oversamp, width=width)
    x = torch.randn(4, 4, 4, dtype=torch.complex64)
    y, wanted = A(x), exact(x)
    for result, expected in ((y, wanted), (A.H(y), exact.H(wanted))):
        error, norm = map(torch.linalg.vector_norm, (result - expected, expected))
        assert error < 1e-2 * norm  # at most 2e-3 in 40 draws, above 1e-3 in ten of them


@given(data=st.data())
def test_the_largest_error_is_at_most_tol_and_not_much_less(data: st.DataObject) -> None:
    n_axes = data.draw(st.integers(1, 3))
    lengths = st.integers(1, (200, 30, 7)[n_axes - 1])
    sizes = tuple(data.draw(st.lists(lengths, min_size=n_axes, max_size=n_axes)))
    is_single = data.draw(st.booleans())
    dtype = torch.complex64 if is_single else torch.complex128
    tol = 10 ** data.draw(st.floats(-5 if is_single else -11, -1))
    locs, way = (
        locations(60, sizes=sizes, seed=data.draw(st.integers(0, 99))),
        fastest_gridding(tol, sizes),
    )
    # Where the kernel ends at points of the finer grid, errors may be largest.
    grid = torch.tensor(sizes, dtype=locs.dtype) / torch.tensor(way.padded)
    halves = (2 * locs[:30] / grid).round() / 2
    locs[:30] = (halves - halves.sign() * 1e-9) * grid
    A = NUFFT(locs, sizes, ("K",), batch_shape=("B",), tol=tol, method="interpolate")
    n, impulses = math.prod(sizes), torch.zeros(9, math.prod(sizes), dtype=dtype)
    pixels = torch.cat([torch.tensor([0, n - 1]), torch.randint(n, (7,))])  # the edges, and others
    impulses[torch.arange(9), pixels] = math.sqrt(n)
    exact = matrix(locs, sizes)[:, pixels].mT * math.sqrt(n)
    error = (A(impulses.view(-1, *sizes)) - exact).abs().max()
    assert error <= tol
    # The largest errors may be between the locations.
    assert error >= 0.1 * tol or n < 9
    largest = way.error(sizes, torch.float64)
    assert 0.2 * tol <= largest <= tol or n < 3  # there are few grids for one or two pixels


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [(512,), (4, 4), (4, 4, 4), (12, 16, 20), (2, 512)])
@pytest.mark.parametrize("method", ["interpolate", "table"])
@pytest.mark.parametrize("tol", [1e-5, 1e-6])
def test_data_in_single_precision_keep_a_small_tol(
    sizes: tuple[int, ...], method: str, tol: float
) -> None:
    locs = locations(20, sizes=sizes)
    locs[0] = torch.tensor(sizes) / 2
    A = NUFFT(locs, sizes, ("K",), batch_shape=("B",), tol=tol, method=method)
    n = math.prod(sizes)  # at the edges of the image rounding is largest
    pixels = torch.cat([torch.tensor([0, n - 1]), torch.arange(0, n, 1 + n // 60)])
    impulses = torch.zeros(len(pixels), n)
    impulses[torch.arange(len(pixels)), pixels] = math.sqrt(n)
    exact = matrix(locs, sizes)[:, pixels].mT * math.sqrt(n)
    y = A(impulses.view(-1, *sizes))
    assert y.dtype is torch.complex64 and (y - exact).abs().max() <= tol


def test_repr_says_how_large_the_error_of_an_entry_is() -> None:
    for sizes in ((64,), (64, 64)):
        locs = locations(40, sizes=sizes)
        A = NUFFT(locs, sizes, ("K",), batch_shape=("C",))
        assert repr(A).splitlines()[0].endswith("error of entries up to 1.0e-03")
        B = NUFFT(locs, sizes, ("K",), batch_shape=(), width=4)
        error = repr(B).splitlines()[0].rpartition(" ")[2]
        rows = B.H.to_dense().mH  # few of them
        result = (rows - matrix(locs, sizes)).abs().max() * math.sqrt(math.prod(sizes))
        assert float(error) / 3 <= result <= float(error)
    exact = NUFFT(LOCS, (4, 4), ("K",), method="finufft", tol=1e-6)
    assert "error of entries up to 1.0e-06" in repr(exact)
    coarse = NUFFT(locs, (64, 64), ("K",), width=2.0, oversamp=1.125)
    assert "error" not in repr(coarse).splitlines()[0]


@pytest.mark.parametrize("size", [4, 5])
def test_integer_locations_are_the_centred_unitary_transform(size: int) -> None:
    at = torch.arange(size, dtype=torch.float64) - size // 2
    locs = torch.stack(torch.meshgrid(at, at, indexing="ij"), -1)
    x = torch.randn(2, size, size, dtype=torch.complex128)
    A = NUFFT(locs, (size, size), ("Kx1", "Ky1"), tol=1e-10)
    torch.testing.assert_close(A(x), FFT(2, centered=True)(x), atol=1e-9, rtol=0)


def test_frames_have_locations_of_their_own() -> None:
    sizes = (5, 4)
    locs = locations(2, 3, 7, sizes=sizes)
    x = torch.randn(3, 2, 2, *sizes, dtype=torch.complex128)  # U, C, T
    A = NUFFT(locs, sizes, ("T", "U", "K"), batch_shape=("U", "...", "T"), tol=1e-9)
    assert A.oshape == ("U", "...", "T", "K")
    y = A(x)
    for t in range(2):
        for u in range(3):
            expected = x[u, :, t].flatten(1) @ matrix(locs[t, u], sizes).mT
            torch.testing.assert_close(y[u, :, t], expected, atol=1e-8, rtol=0)


def test_gradients_to_locations_are_those_of_the_exact_sum() -> None:
    sizes = (5, 4)
    locs = locations(6, sizes=sizes).requires_grad_()
    x = torch.randn(2, *sizes, dtype=torch.complex128, requires_grad=True)
    weights = torch.randn(2, 6, dtype=torch.complex128)
    exact = x.flatten(1) @ matrix(locs, sizes).mT
    A = NUFFT(locs, sizes, ("K",), tol=1e-10)
    result = torch.autograd.grad((weights * A(x)).sum().abs(), [locs, x])
    expected = torch.autograd.grad((weights * exact).sum().abs(), [locs, x])
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-7, rtol=0)


def test_gradients_reach_locations_through_a_solver() -> None:
    sizes = (3, 4)
    locs = locations(25, sizes=sizes)
    y = torch.randn(25, dtype=torch.complex128)

    def solved(locs: Tensor) -> Tensor:
        A = NUFFT(locs, sizes, ("K",), batch_shape=(), tol=1e-6)
        x = conjugate_gradients(A.N + 0.5 * A.N**0, A.H(y), max_num_iters=60, gtol=1e-13, ltol=0)
        return x.abs().square().sum()

    locs.requires_grad_()
    (result,) = torch.autograd.grad(solved(locs), locs)
    step, change = 1e-5, torch.randn_like(locs)
    with torch.no_grad():
        difference = (solved(locs + step * change) - solved(locs - step * change)) / (2 * step)
    torch.testing.assert_close((result * change).sum(), difference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("module", [_nufft, _oversampled_fft])
def test_a_large_batch_is_computed_in_parts(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    sizes = (5, 4)
    locs = locations(2, 6, sizes=sizes)
    A = NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T", "S"))
    x = torch.randn(3, 2, 4, *sizes, dtype=torch.complex128)
    y = A(x)
    back = A.H(y)
    for step in (1, 1000, 3000, 5000):
        monkeypatch.setattr(module, "_STEP", step)
        torch.testing.assert_close(A(x), y)
        torch.testing.assert_close(A.H(y), back)


@given(
    lengths=st.tuples(*[st.integers(1, 3)] * 3),
    frames=st.sampled_from([("T", "U"), ("T",)]),
    nbytes=st.integers(1, 4000),
    method=st.sampled_from(["table", "interpolate"]),
    change=st.sampled_from(["write", "replace", "longer"]),
)
def test_frames_in_parts_are_the_whole_also_with_new_locations(
    lengths: tuple[int, int, int],
    frames: tuple[str, ...],
    nbytes: int,
    method: str,
    change: str,
) -> None:
    sizes, n_frames = (5, 4), dict(zip("TUC", lengths, strict=True))
    shape = [n_frames[frame] for frame in frames]
    locs = locations(*shape, 6, sizes=sizes).float()
    A, whole = (
        NUFFT(locs.clone(), sizes, (*frames, "K"), batch_shape="TCU", method=method)
        for _ in range(2)
    )
    x = torch.randn(*[n_frames[dim] for dim in "TCU"], *sizes, dtype=torch.complex128)

    def both(linop: NamedLinop) -> list[Tensor]:
        v = x.clone().requires_grad_()
        y = linop(v)
        (gradient,) = torch.autograd.grad(y.abs().square().sum(), v)
        return [y.detach(), gradient, linop.H(y.detach()), linop.N(x), linop(x.to(torch.complex64))]

    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            patch.setattr(_nufft, "_FRAMES", 2**40)
            expected = both(whole)
            patch.setattr(_nufft, "_FRAMES", nbytes)
            for one, other in zip(both(A), expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
            for linop in (A, whole):
                n_points = 7 if change == "longer" else 6
                new = locations(*shape, n_points, sizes=sizes, seed=1).float()
                if change == "write":
                    linop.interpolate.locs.copy_(new)
                else:
                    linop.interpolate.locs = new


def tables(linops: Iterable[Any]) -> list[Any]:
    """Return what keeps the tables of some NUFFTs, which must have been made."""
    results = [vars(linop.interpolate)["_table"] for linop in linops]
    assert all(table._made[1] for table in results)
    return results


def test_tables_of_frames_are_shared_by_relatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nufft, "_FRAMES", 1)
    sizes = (5, 4)
    locs, x = locations(3, 6, sizes=sizes), torch.randn(3, *sizes, dtype=torch.complex128)
    A = NUFFT(locs, sizes, ("T", "K"), batch_shape=("T",), method="table")
    relatives = [A, A.H, *A.N.flatten()]
    A.N(A.H(A(x)))
    first, *others = [tables((_nufft.FRAMES.get(linop) or (None, ()))[1]) for linop in relatives]
    assert len(first) == len({*first}) == 3
    assert others == [first] * 3


def test_frames_stay_together_if_only_the_table_of_all_fits_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_nufft, "_FRAMES", 1)
    sizes = (5, 4)
    locs, x = locations(3, 6, sizes=sizes), torch.randn(3, *sizes, dtype=torch.complex64)
    names: Any = {"output_shape": ("T", "K"), "batch_shape": ("T",)}
    nbytes = NUFFT(locs, sizes, **names, method="table").interpolate.table_nbytes
    A = NUFFT(locs, sizes, **names, method="table", table_budget=nbytes)
    torch.testing.assert_close(A(x), NUFFT(locs, sizes, **names, method="interpolate")(x))
    assert len(tables([A])) == 1  # tables of tiles take a few bytes more


def test_tiles_of_points_frames_and_coils_are_parts_of_the_whole() -> None:
    sizes = (5, 4)
    locs = locations(3, 6, sizes=sizes)
    A = NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T"), method="table")
    x = torch.randn(2, 3, *sizes, dtype=torch.complex128)
    window = {ND("T"): slice(1, 3), ND("K"): slice(2, 5), ND("C"): slice(1, 2)}
    part = A.split(A, window)
    torch.testing.assert_close(part(x[1:, 1:]), A(x)[1:, 1:, 2:5])
    assert part.locs.shape == (2, 3, 2)
    for dim in ("Nx", "Ky"):
        with pytest.raises(SplitError, match="cut along points, frames or coils"):
            A.split(A, {ND(dim): slice(0, 2)})


@pytest.mark.parametrize("toeplitz", [False, True])
def test_locations_do_not_decide_the_dtype(toeplitz: bool) -> None:
    locs = locations(6, sizes=(5, 4))
    A = NUFFT(nn.Parameter(locs), (5, 4), ("K",), toeplitz=toeplitz)
    x = torch.randn(5, 4)
    y = A(x.to(torch.complex64))
    y.abs().sum().backward()
    assert A.locs.grad is not None and A.locs.grad.dtype is torch.float64
    B = NUFFT(locs, (5, 4), ("K",), toeplitz=toeplitz)
    exact, normal = B(x.double()), B.N(x.double())
    for dtype in (torch.float16, torch.float32, torch.int64, torch.complex64):
        assert A(x.to(dtype)).dtype is B(x.to(dtype)).dtype is B.N(x.to(dtype)).dtype
        assert B.H(B(x.to(dtype))).dtype is torch.complex64
    torch.testing.assert_close(B(x), exact.to(torch.complex64))
    torch.testing.assert_close(B.N(x), normal.to(torch.complex64), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(B.N(x.double()), normal)


def test_a_trajectory_of_the_package_fits() -> None:
    locs = trajectories.radial_2d(13, 32, 16)
    A = NUFFT(locs, (16, 16), ("S", "R"))
    assert A(torch.ones(16, 16)).shape == (13, 32)


LOCS = torch.zeros(3, 2)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"locs": [0.0]}, TypeError, "a tensor of real numbers, got <class 'list'>"),
        ({"locs": LOCS.int()}, TypeError, "a tensor of real numbers, got torch.int32"),
        ({"locs": LOCS.half()}, TypeError, r"must be of torch.float32 or .* locs.float\(\)"),
        ({"input_shape": ()}, ValueError, "input_shape must have 2 dimensions"),
        ({"locs": LOCS + math.nan}, ValueError, "must be finite, .*; leave these points out"),
        ({"locs": LOCS + math.inf}, ValueError, "must be finite"),
        ({"locs": LOCS + 2.1}, ValueError, r"in \[-N / 2, N / 2\] .* radians .* larger grid"),
        ({"locs": torch.zeros(3, 3)}, ValueError, r"must have size 2 for images of \(4, 4\)"),
        ({"grid_size": (4, 4, 4, 4)}, ValueError, "grid_size must be 1 or 2 or 3 positive"),
        ({"output_shape": ()}, ValueError, r"output_shape must have 1 dimensions for .*, got \(\)"),
        ({"output_shape": ("A", "B")}, ValueError, "output_shape must have 1 dimensions"),
        ({"output_shape": ("...",)}, ValueError, "output_shape must have 1 dimensions"),
        ({"output_shape": ("Nx",)}, ValueError, "must have different names"),
        ({"input_shape": ("X",)}, ValueError, "input_shape must have 2 dimensions"),
        ({"input_kshape": ("X",)}, ValueError, "input_kshape must have 2 dimensions"),
        ({"input_kshape": ("K", "L")}, ValueError, "must have different names"),
        ({"batch_shape": ("Nx",)}, ValueError, "must have different names"),
        ({"oversamp": 1.0}, ValueError, "oversamp must be at least 1.125 and finite, got 1.0"),
        ({"width": 1}, ValueError, "width must be at least 2 and finite, got 1"),
        ({"width": math.inf}, ValueError, "width must be at least 2 and finite, got inf"),
        ({"oversamp": 0}, ValueError, "oversamp must be at least 1.125 and finite, got 0"),
        ({"oversamp": False}, TypeError, "oversamp must be a real number, got False"),
        ({"width": 0}, ValueError, "width must be at least 2 and finite, got 0"),
        ({"method": "magic"}, ValueError, "method must be .*, got 'magic'"),
        (
            {"method": "table", "table_budget": 9},
            ValueError,
            "table_budget must be at least .* raise",
        ),
        (
            {"method": "table", "locs": LOCS.clone().requires_grad_()},
            ValueError,
            "needs locations that do not require gradients and were not made in torch.inference",
        ),
        ({"tol": 1e-3, "width": 6}, ValueError, "tol must be given without oversamp"),
        ({"tol": 1e-30}, ValueError, "tol must .* at least .* for a grid of .*, got 1e-30"),
        ({"tol": 0}, ValueError, "tol must be positive and finite"),
        ({"tol": math.nan}, ValueError, "tol must be positive and finite"),
    ],
)
def test_bad_arguments_are_refused(
    change: dict[str, object], error: type[Exception], match: str
) -> None:
    arguments = {"locs": LOCS, "grid_size": (4, 4), "output_shape": ("K",), **change}
    with pytest.raises(error, match=f"NUFFT: .*{match}"):
        NUFFT(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["auto", "table", "interpolate"])
def test_all_methods_give_the_same_values(method: str) -> None:
    sizes = (5, 4)
    locs = locations(2, 6, sizes=sizes)
    A, B = (
        NUFFT(locs, sizes, ("T", "K"), batch_shape=("C", "T"), method=way, oversamp=1.5)
        for way in (method, "interpolate")
    )
    assert bool(A.interpolate.table_nbytes) == (method != "interpolate")
    assert A.method == ("interpolate" if method == "interpolate" else "table")
    x = torch.randn(3, 2, *sizes, dtype=torch.complex128)
    torch.testing.assert_close(A(x), B(x))
    torch.testing.assert_close(A.H(B(x)), B.H(B(x)))
    locs.mul_(0.5)
    torch.testing.assert_close(A(x), B(x))


def test_past_its_budget_there_is_no_table() -> None:
    A = NUFFT(LOCS, (4, 4), ("K",), table_budget=100)
    assert A.interpolate.table_nbytes == 0
    assert A(torch.ones(4, 4)).shape == (3,)


def test_an_input_on_another_device_is_refused() -> None:
    A = NUFFT(LOCS, (4, 4), ("K",))
    with pytest.raises(ValueError, match="must be on the device of the locations, cpu, got meta"):
        A(torch.zeros(4, 4, device="meta"))


@pytest.mark.parametrize("toeplitz", [False, True])
def test_locations_that_change_before_the_gradient_are_refused(toeplitz: bool) -> None:
    sizes = (4, 5)
    locs = locations(6, sizes=sizes)
    A = NUFFT(locs, sizes, ("K",), toeplitz=toeplitz)
    x = torch.ones(*sizes, dtype=torch.complex128, requires_grad=True)
    y = (A.N if toeplitz else A)(x)
    locs.mul_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.abs().sum().backward()


def test_sizes_that_do_not_fit_name_the_transform_and_not_its_parts() -> None:
    A = NUFFT(torch.rand(5, 2), (8, 6), ("K",))
    with pytest.raises(ValueError, match=r"^NUFFT: Nx must have size 8, got 7 in an input"):
        A(torch.ones(7, 6))
    with pytest.raises(ValueError, match=r"^NUFFT\S*: K must have size 5, got 4 in an input"):
        A.H(torch.ones(4))
    with pytest.raises(ValueError, match=r"NUFFT\S*: Ny must have size 6, got 7 in an input"):
        A.N(torch.ones(8, 7))


@pytest.mark.parametrize("method", ["auto", "table", "interpolate", "finufft"])
@pytest.mark.parametrize("lengths", [(1, 0), (0, 3)])
def test_no_locations_are_measured_at_none(method: str, lengths: tuple[int, int]) -> None:
    if method == "finufft":
        pytest.importorskip("finufft")
    A = NUFFT(torch.zeros(*lengths, 2), (4, 3), ("T", "K"), batch_shape=("T",), method=method)
    assert A(torch.ones(lengths[0], 4, 3)).shape == lengths
    assert torch.equal(A.H(torch.ones(lengths)), torch.zeros(lengths[0], 4, 3) + 0j)


def test_points_have_names_by_default_and_numbers_may_be_those_of_numpy() -> None:
    A = NUFFT(torch.rand(3, 5, 2), (8, 8), oversamp=cast(float, np.int64(2)), width=4.0)
    assert A.oshape[1:] == ("K", "K1")
