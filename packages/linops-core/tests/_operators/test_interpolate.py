import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from linops_core import FFT, Interpolate, NamedLinop, SplitError
from linops_core._kernels._interpolation._weights import beatty_beta
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND, NamedDimension

WindowsIn = Callable[[NamedLinop], st.SearchStrategy[dict[NamedDimension, slice]]]


def points(*lengths: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return 6 * torch.rand(lengths, dtype=torch.float64, generator=generator) - 1


class TestInterpolate(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Interpolate(nn.Parameter(points(2, 3, 2)), [4, 3], ("C",), width=3)

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestInterpolateFrames(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = nn.Parameter(points(2, 2, 2))
        batch, of_points = ("C", "T", "S"), ("T", "P")
        return Interpolate(locs, [3, 2], batch, of_points, width=2, scale=(0.5, 1.25))

    def sizes(self) -> Mapping[str, int]:
        return {"C": 1, "S": 2}


@pytest.mark.variant
class TestTileOfAGrid(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = nn.Parameter(points(3, 2))
        A = Interpolate(locs, [4, 3], (), width=3)
        return A.split_forward([slice(1, 3), slice(2, 3)], [slice(1, 3)])


@pytest.mark.variant
class TestRoundTileWithZeros(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = nn.Parameter(points(3, 2))
        A = Interpolate(locs, [4, 3], (), None, None, 3, "spline", 2, "zeros", {"order": 3})
        return A.split_forward([slice(0, 2), slice(None)], [slice(None)])


@pytest.mark.variant
class TestRoundInterpolateWithZeros(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        params = {"beta": 4.0}
        return Interpolate(points(3, 2), [4, 3], width=2.5, norm=2, pad_mode="zeros",
                           kernel_params=params)  # fmt: skip


class TestCubicInterpolate(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        locs = nn.Parameter(points(3, 3))
        return Interpolate(locs, [3, 2, 2], (), ("P",), ("X", "Y", "Z"), 2, "spline",
                           kernel_params={"order": 3})  # fmt: skip


@pytest.mark.variant
class TestRoundQuadraticInterpolate(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Interpolate(
            nn.Parameter(points(3, 2)), [3, 4], (), None, None, 3, "spline", 2, "zeros",
            {"order": 2},
        )  # fmt: skip


@given(st.permutations(["C", "S", "T", "U"]), st.sampled_from([None, "C", "S"]))
def test_each_frame_has_points_of_its_own(batch: list[str], run: str | None) -> None:
    locs = points(2, 3, 4, 1)
    sizes = {"C": 2, "S": 1, "T": 2, "U": 3}
    names = ["..." if dim == run else dim for dim in batch]
    A = Interpolate(locs, [5], names, ("T", "U", "P"), width=3)
    x = torch.randn(*[sizes[dim] for dim in batch], 5, dtype=torch.complex128)
    t, u = batch.index("T"), batch.index("U")
    y = A(x)
    for i in range(2):
        for j in range(3):
            one = Interpolate(locs[i, j], [5], width=3)
            frame = x.select(max(t, u), (i, j)[t < u]).select(min(t, u), (j, i)[t < u])
            result = y.select(max(t, u), (i, j)[t < u]).select(min(t, u), (j, i)[t < u])
            torch.testing.assert_close(result, one(frame))


def test_frames_come_first() -> None:
    with pytest.raises(ValueError, match=r"Interpolate: dimensions that are also .* come first"):
        Interpolate(points(3, 2, 1), [5], ("T",), ("P", "T"))


@given(st.lists(st.floats(0.1, 3), min_size=2, max_size=2))
def test_locations_may_be_in_other_units(scale: list[float]) -> None:
    locs, x = points(6, 2), torch.randn(4, 5, dtype=torch.float64)
    A = Interpolate(locs, [4, 5], width=3, scale=scale)
    expected = Interpolate(locs * torch.tensor(scale, dtype=torch.float64), [4, 5], width=3)
    torch.testing.assert_close(A(x), expected(x))


@pytest.mark.parametrize("scale", [(1.0,), (1.0, 0.0), (1.0, -1.0), (1.0, math.inf)])
def test_scale_is_a_positive_number_for_each_axis(scale: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="Interpolate: scale must be 2 positive finite numbers"):
        Interpolate(points(3, 2), [4, 3], scale=scale)


def test_linear_interpolation_of_a_plane_is_that_plane() -> None:
    rows, columns = torch.meshgrid(torch.arange(5.0), torch.arange(6.0), indexing="ij")
    locs = torch.tensor([[0.0, 0.0], [1.5, 2.25], [4.0, 5.0], [3.75, 0.5]])
    A = Interpolate(locs, [5, 6], width=2, kernel="linear", pad_mode="zeros")
    torch.testing.assert_close(A(2 * rows - 3 * columns), 2 * locs[:, 0] - 3 * locs[:, 1])


def test_linear_interpolation_is_circular_or_fades_out() -> None:
    locs = torch.tensor([[3.25], [-0.25], [4.0], [7.5]])
    x = torch.tensor([10.0, 20.0, 30.0, 40.0])
    circular = Interpolate(locs, [4], width=2, kernel="linear")
    assert circular(x).tolist() == [32.5, 17.5, 10.0, 25.0]
    zeros = Interpolate(locs, [4], width=2, kernel="linear", pad_mode="zeros")
    assert zeros(x).tolist() == [30.0, 7.5, 0.0, 0.0]
    assert zeros.H(torch.tensor([1.0, 1.0, 1.0, 1.0])).tolist() == [0.75, 0, 0, 0.75]


@pytest.mark.parametrize("order", [2, 3])
def test_splines_smooth_a_parabola_by_a_constant(order: int) -> None:
    # The sum over n of B(x - n) n^2 is x^2 plus the variance of B, which is (q + 1) / 12.
    n = torch.arange(12, dtype=torch.float64)
    locs = torch.tensor([[4.0], [5.25], [6.9]], dtype=torch.float64)
    A = Interpolate(locs, [12], width=order + 1, kernel="spline", kernel_params={"order": order})
    torch.testing.assert_close(A(n.square()), locs[:, 0].square() + (order + 1) / 12)


def test_a_round_kernel_sees_the_distance_and_a_product_its_coordinates() -> None:
    locs = torch.tensor([[2.6, 2.8]], dtype=torch.float64)  # 0.6 and 0.8 from (2, 2), so 1
    x = torch.zeros(6, 6, dtype=torch.float64)
    x[2, 2] = 1
    values = [Interpolate(locs, [6, 6], None, None, None, 4, "linear", norm)(x) for norm in (1, 2)]
    assert values[0].item() == pytest.approx((1 - 0.3) * (1 - 0.4))
    assert values[1].item() == pytest.approx(1 - 0.5)


def nonuniform_error(width: float, oversampling: float, n: int = 64) -> float:
    """Return the largest error of a non-uniform transform, relative to the sum of magnitudes."""
    m = int(n * oversampling)
    generator = torch.Generator().manual_seed(0)
    frequencies = n * (torch.rand(400, dtype=torch.float64, generator=generator) - 0.5)
    at = torch.arange(n, dtype=torch.float64) - n // 2
    beta = beatty_beta(width, oversampling)
    root = torch.sqrt(beta**2 - (math.pi * width * at / m) ** 2 + 0j)
    transform_of_kernel = (width * torch.sinh(root) / root).real
    exact = torch.exp(-2j * math.pi * frequencies[:, None] * at / n)
    # Of all images with one pixel of magnitude 1: others are sums of these.
    images = torch.zeros(n, m, dtype=torch.complex128)
    images[torch.arange(n), at.long() % m] = 1 / transform_of_kernel + 0j
    locs = (frequencies * m / n).unsqueeze(-1)
    interpolate = Interpolate(locs, [m], width=width, kernel_params={"beta": beta})
    A = interpolate @ FFT(1, norm="backward")
    return float((A(images).mT - exact).abs().max())


@pytest.mark.parametrize(
    ("oversampling", "errors"),
    [
        (2.0, {2: 1.1e-1, 3: 9.1e-3, 4: 1.5e-3, 6: 1.4e-5, 8: 2.5e-7}),
        (1.25, {2: 3.9e-1, 3: 7.5e-2, 4: 1.8e-2, 6: 1.5e-3, 8: 9.7e-5}),
    ],
)
def test_a_nonuniform_transform_is_as_accurate_as_its_width_allows(
    oversampling: float, errors: Mapping[int, float]
) -> None:
    for width, error in errors.items():
        assert nonuniform_error(width, oversampling) == pytest.approx(error, rel=0.05)


def test_beta_is_the_best_for_an_oversampling_of_two_unless_given() -> None:
    locs, x = points(5, 1), torch.randn(8, dtype=torch.float64)
    default = Interpolate(locs, [8], width=6)(x)
    given = Interpolate(locs, [8], width=6, kernel_params={"beta": beatty_beta(6, 2.0)})(x)
    assert torch.equal(default, given)


def test_gradients_to_locations_are_those_of_the_interpolated_function() -> None:
    # A cubic spline reproduces the derivative of a parabola exactly: 2 x.
    locs = torch.tensor([[4.0], [5.25]], dtype=torch.float64, requires_grad=True)
    x = torch.arange(12, dtype=torch.float64).square()
    A = Interpolate(locs, [12], width=4, kernel="spline", kernel_params={"order": 3})
    (first,) = torch.autograd.grad(A(x).sum(), locs, create_graph=True)
    torch.testing.assert_close(first, 2 * locs)
    (second,) = torch.autograd.grad(first.sum(), locs)
    torch.testing.assert_close(second, torch.full_like(second, 2))


@pytest.mark.parametrize("order", [1, 2, 3])
@given(eighths=st.integers(24, 64), slope=st.integers(-3, 3))
def test_the_interpolated_ramp_has_its_slope_also_at_knots(
    order: int, eighths: int, slope: int
) -> None:
    # The splines of width order + 1 reproduce a ramp, so that y has a derivative everywhere.
    locs = torch.tensor([[eighths / 8]], dtype=torch.float64, requires_grad=True)
    A = Interpolate(locs, [12], width=order + 1, kernel="spline", kernel_params={"order": order})
    x = slope * torch.arange(12, dtype=torch.float64) + 1
    (first,) = torch.autograd.grad(A(x).sum(), locs, create_graph=True)
    torch.testing.assert_close(first, torch.full_like(first, slope))
    if order > 1:
        (second,) = torch.autograd.grad(first.sum(), locs)
        torch.testing.assert_close(second, torch.zeros_like(second))


@given(
    eighths=st.lists(st.integers(-16, 48), min_size=2, max_size=2),
    width=st.sampled_from([1, 2.0, 2.5, 3, 4.0]),
    order=st.integers(1, 3),
    pad_mode=st.sampled_from(["circular", "zeros"]),
)
def test_gradients_to_locations_at_kinks_are_differences_towards_larger_coordinates(
    eighths: list[int], width: float, order: int, pad_mode: str
) -> None:
    locs = torch.tensor([eighths], dtype=torch.float64) / 8
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, generator=generator)

    def value(at: Tensor) -> Tensor:
        A = Interpolate(at, [3, 4], None, None, None, width, "spline", 1, pad_mode,
                        {"order": order})  # fmt: skip
        return A(x).sum()

    (result,) = torch.autograd.grad(value(locs.requires_grad_()), locs)
    locs, step = locs.detach(), 1e-5
    for axis in range(2):
        ahead = torch.zeros_like(locs).index_fill(1, torch.tensor([axis]), step)
        # Of second order, and of points on one side alone.
        difference = (4 * value(locs + ahead) - 3 * value(locs) - value(locs + 2 * ahead)) / 2
        assert result[0, axis].item() == pytest.approx(difference.item() / step, abs=1e-6)


@pytest.mark.parametrize("norm", [1, 2])
@given(
    eighths=st.integers(0, 40),
    width=st.sampled_from([1, 2.0, 2.5, 3, 4.0]),
    beta=st.sampled_from([0.0, 3.0]),
)
def test_gradients_where_the_kaiser_bessel_kernel_jumps_are_those_of_the_nearer_neighbours(
    norm: int, eighths: int, width: float, beta: float
) -> None:
    at = eighths / 8
    locs = torch.tensor([[at]], dtype=torch.float64, requires_grad=True)
    x = torch.arange(1.0, 7, dtype=torch.float64).square()
    A = Interpolate(locs, [6], width=width, norm=norm, kernel_params={"beta": beta})
    (result,) = torch.autograd.grad(A(x).sum(), locs)
    expected = 0.0
    for n in range(-6, 12):
        t = (n - at) / (width / 2)
        if abs(t) < 1:
            q = (beta / 2) ** 2 * (1 - t * t)  # dI_0/dl is beta^2 / 2 times t / radius times I_1
            slope = sum(q**k / (math.factorial(k) * math.factorial(k + 1)) for k in range(30))
            expected += x[n % 6].item() * beta**2 / 2 * t / (width / 2) * slope
    assert result.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("kernel", "params", "norm"),
    [
        ("kaiser_bessel", {"beta": 5.0}, 1),
        ("kaiser_bessel", None, 2),
        ("spline", {"order": 3}, 1),
        ("spline", {"order": 3}, 2),
    ],
)
def test_second_derivatives_to_input_and_locations_are_right(
    kernel: str, params: Mapping[str, float] | None, norm: int
) -> None:
    locs = (points(2, 2) + 0.1).requires_grad_()
    x = torch.randn(3, 4, dtype=torch.complex128, requires_grad=True)

    def forward(x: Tensor, locs: Tensor) -> Tensor:
        A = Interpolate(locs, [3, 4], (), None, None, 4, kernel, norm, "circular", params)
        return A(x)

    def adjoint(y: Tensor, locs: Tensor) -> Tensor:
        A = Interpolate(locs, [3, 4], (), None, None, 4, kernel, norm, "circular", params)
        return A.H(y)

    assert torch.autograd.gradgradcheck(forward, (x, locs), fast_mode=True)
    y = torch.randn(2, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradgradcheck(adjoint, (y, locs), fast_mode=True)


def test_one_point_and_no_point() -> None:
    point = Interpolate(torch.tensor([1.5]), [4], width=2, kernel="linear")
    x = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 7.0, 7.0]])
    assert point.oshape == ("...",) and point(x).tolist() == [1.5, 6.0]
    assert point.H(torch.tensor([2.0])).tolist() == [[0, 1, 1, 0]]
    none = Interpolate(torch.empty(0, 2), [3, 2])
    assert none(torch.ones(5, 3, 2)).shape == (5, 0)
    assert none.H(torch.ones(5, 0)).tolist() == torch.zeros(5, 3, 2).tolist()


def test_points_and_the_grid_can_be_sliced() -> None:
    A = Interpolate(torch.tensor([[2.0], [0.5], [1.0]]), [4], width=2, kernel="linear")
    assert (str(A.role("K")), str(A.role("Kx"))) == ("output", "input")
    assert (A.size("K"), A.size("Kx")) == (3, 4) and set(map(str, A.dims)) == {"K", "Kx"}
    tile = A.split(A, {ND("K"): slice(1, 3)})
    assert tile(torch.tensor([5.0, 6.0, 7.0, 8.0])).tolist() == [5.5, 6]
    part = A.split(A, {ND("Kx"): slice(1, 3)})
    assert part(torch.tensor([6.0, 7.0])).tolist() == [7, 3, 6]
    assert part.H(torch.ones(3)).tolist() == [1.5, 1]
    assert tile.locs is part.locs is A.locs
    assert part.support("Kx") is None  # the points may move


def test_a_name_that_grid_and_points_share_cannot_be_sliced() -> None:
    A = Interpolate(points(2, 3, 2), [3, 4], (), ("X", "P"), ("X", "Y"))
    assert [str(A.role(dim)) for dim in "XYP"] == ["opaque", "input", "output"]
    with pytest.raises(SplitError, match=r"X cannot be split: .* or rename one of them$"):
        A.split(A, {ND("X"): slice(0, 1)})


@given(data=st.data())
def test_a_tile_of_a_tile_is_that_block_of_the_matrix(
    data: st.DataObject, windows_in: WindowsIn
) -> None:
    grid = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    A = Interpolate(
        points(3, len(grid)), grid, (), None, None,
        width=data.draw(st.sampled_from([2, 2.5, 7])),
        norm=data.draw(st.sampled_from([1, 2])),
        pad_mode=data.draw(st.sampled_from(["zeros", "circular"])),
    )  # fmt: skip
    dims = (*A.oshape, *A.ishape)
    blocks = A.to_dense().reshape([A.size(dim) or 0 for dim in dims])
    tile: NamedLinop = A
    for _ in range(2):
        window = data.draw(windows_in(tile))
        tile = tile.split(tile, window)
        blocks = blocks[tuple(window.get(dim, slice(None)) for dim in dims)]
        matrix = tile.to_dense()
        torch.testing.assert_close(matrix, blocks.reshape(matrix.shape))
        torch.testing.assert_close(tile.H.to_dense(), matrix.mH)
        torch.testing.assert_close(tile.N.to_dense(), matrix.mH @ matrix)


@pytest.mark.parametrize("mode", ["zeros", "circular"])
@pytest.mark.parametrize("norm", [1, 2])
def test_gradients_to_locations_are_the_sum_of_those_of_the_tiles(mode: str, norm: int) -> None:
    A = Interpolate(nn.Parameter(points(4, 2)), [4, 3], (), width=3, norm=norm, pad_mode=mode)
    x = torch.randn(4, 3, dtype=torch.float64)
    tiles = [A.split(A, {ND("Kx"): piece}) for piece in (slice(0, 1), slice(1, 4))]
    y = tiles[0](x[:1]) + tiles[1](x[1:])
    result, wanted = (torch.autograd.grad(z.square().sum(), A.locs)[0] for z in (y, A(x)))
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("width", [2.0, 4.0])
def test_locations_in_half_precision_are_used_as_they_are(
    dtype: torch.dtype, ndim: int, width: float
) -> None:
    locs = (5 * torch.rand(4, ndim)).to(dtype)
    A = Interpolate(locs, [5] * ndim, width=width)
    exact = Interpolate(locs.double(), [5] * ndim, width=width)
    x = torch.randn([5] * ndim, dtype=torch.complex64)
    y = A(x)
    assert y.dtype == A.H(y).dtype == torch.complex64
    for result, expected in ((y, exact(x)), (A.H(y), exact.H(y))):
        torch.testing.assert_close(result, expected.to(torch.complex64), rtol=1e-4, atol=1e-3)
    if width == 2:  # values of wider kernels exceed half precision
        assert A(x.real.half()).dtype == torch.float16


@pytest.mark.parametrize(("ndim", "beta"), [(1, 100.0), (2, 60.0), (3, 32.0)])
@pytest.mark.parametrize("scaled", [False, True])
def test_weights_beyond_single_precision_give_the_values_of_the_formula(
    ndim: int, beta: float, scaled: bool
) -> None:
    locs = nn.Parameter(torch.rand(3, ndim))
    params = {"beta": beta, "scaled": scaled}
    A = Interpolate(locs, [3] * ndim, width=3, kernel_params=params)
    exact = Interpolate(locs.detach().double(), [3] * ndim, width=3, kernel_params=params)
    if scaled:
        plain = Interpolate(exact.locs, [3] * ndim, width=3, kernel_params={"beta": beta})
        factor = math.exp(-beta * ndim)
        torch.testing.assert_close(exact.to_dense(), factor * plain.to_dense())
    x = torch.randn([3] * ndim) * (1 if scaled else math.exp(-0.8 * beta * ndim))
    result, y = A(x), exact(x.double())
    assert result.dtype == A.H(result).dtype == A.H(result.detach()).dtype == torch.float32
    torch.testing.assert_close(result, y.float(), rtol=1e-3, atol=1e-4 * float(y.abs().max()))
    weight = float(1 / y.abs().max())
    (of_locs,) = torch.autograd.grad((weight * result).sum(), locs)
    exact_locs = nn.Parameter(exact.locs)
    y = functional_call(exact, {"locs": exact_locs}, (x.double(),))
    (wanted,) = torch.autograd.grad((weight * y).sum(), exact_locs)
    largest = float(wanted.abs().max())
    torch.testing.assert_close(of_locs, wanted.float(), rtol=1e-3, atol=1e-4 * largest)
    table = Interpolate(locs.detach(), [3] * ndim, width=3, kernel_params=params)
    torch.testing.assert_close(table(x), result.detach(), rtol=1e-5, atol=0)


def test_names_of_any_kind_may_stand_beside_the_coordinates() -> None:
    locs = torch.tensor([[0.5]])
    A = Interpolate(locs, [2], ("(99)", "C"), width=2, kernel="linear")
    resolved = A.resolved(ishape=(ND("B"), ND("C"), ND("Kx")))
    assert resolved.oshape == ("B", "C", "K")
    assert resolved(torch.tensor([[[1.0, 3.0]]])).tolist() == [[[2.0]]]


def test_an_image_is_read_at_its_points_in_every_precision() -> None:
    locs = torch.tensor([[1.0], [2.5]])
    A = Interpolate(locs, [4], width=2, kernel="linear")
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        y = A(torch.arange(4).to(dtype))
        assert y.dtype == dtype and y.real.tolist() == [1.0, 2.5]


LOCS = torch.zeros(3, 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((torch.zeros(3, 2).long(), [4, 4]), {}, TypeError, r"real numbers, got torch.int64"),
        (([0.0], [4]), {}, TypeError, r"real numbers, got <class 'list'>"),
        ((LOCS, [4, 4, 4, 4]), {}, ValueError, r"grid_size must be 1, 2 or 3 positive integers"),
        ((LOCS, [4.5]), {}, ValueError, r"grid_size must be .* integers, got \(4\.5,\)"),
        ((LOCS, []), {}, ValueError, r"grid_size must be 1, 2 or 3 positive integers, got \(\)"),
        ((LOCS, [4, 0]), {}, ValueError, r"positive integers, got \(4, 0\)"),
        ((LOCS, [4]), {}, ValueError, r"must have size 1 for a grid of \(4,\), got shape \(3, 2\)"),
        ((torch.tensor(1.0), [4]), {}, ValueError, r"must have size 1 .* got shape \(\)"),
        ((LOCS, [4, 4]), {"width": 0}, ValueError, r"width must be positive and finite, got 0"),
        ((LOCS, [4, 4]), {"width": math.inf}, ValueError, r"width must be .* got inf"),
        (
            (torch.zeros(3, 3), [4, 4, 4]),
            {"width": 110.0},
            ValueError,
            r"weights must be in the range of double precision, got .* up to e\^777 for beta=259",
        ),
        ((LOCS, [4, 4]), {"norm": 3}, ValueError, r"norm must be 1 or 2, got 3"),
        ((LOCS, [4, 4]), {"pad_mode": "zero"}, ValueError, r"pad_mode must be .* got 'zero'"),
        (
            (LOCS, [4, 4]),
            {"grid_shape": ("X",)},
            ValueError,
            r"grid_shape must have 2 dimensions .* got \('X',\)",
        ),
        (
            (LOCS, [4, 4]),
            {"locs_batch_shape": ("...",)},
            ValueError,
            r"locs_batch_shape must have 1 dimensions .* got \('...',\)",
        ),
    ],
)
def test_what_is_no_interpolation_is_refused(
    arguments: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=rf"Interpolate: .*{message}"):
        Interpolate(*arguments, **options)


@pytest.mark.parametrize("budget", [None, 0])
@pytest.mark.parametrize("pad_mode", ["circular", "zeros"])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [("kaiser_bessel", None), ("linear", None), ("spline", {"order": 2}), ("spline", {"order": 3})],
)
def test_what_is_nowhere_has_no_value(
    kernel: str, params: dict[str, float] | None, pad_mode: str, budget: int | None
) -> None:
    locs = torch.tensor([[1.0], [float("nan")]])
    options: dict[str, Any] = {"kernel_params": params, "table_budget": budget}
    A = Interpolate(locs, [4], kernel=kernel, pad_mode=pad_mode, **options)
    y = A(torch.ones(4))
    assert y[0].isfinite() and y[1].isnan()
    assert A.H(torch.ones(2)).isnan().any()
