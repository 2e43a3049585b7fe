from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Diagonal, NamedLinop
from linops_solvers import (
    Proximal,
    admm,
    box,
    conjugate,
    douglas_rachford,
    fista,
    group_soft_threshold,
    huber,
    in_basis,
    l0,
    l1_ball,
    l2_ball,
    l2_squared,
    no_penalty,
    nuclear_norm,
    pdhg,
    poisson_likelihood,
    proximal_gradient,
    simplex,
    soft_threshold,
    split_bregman,
)
from linops_solvers._proximals import _singular_values
from linops_solvers._shared import _tall
from nameddim import NamedShape

seeds = st.integers(0, 2**16)
steps = st.floats(0.1, 3.0)


def l1(x: Tensor) -> float:
    return float(x.abs().sum())


def l2(x: Tensor) -> float:
    return 0.75 * float((x - 1).abs().square().sum())


def within(x: Tensor) -> float:
    return 0.0 if float(x.norm()) <= 1 + 1e-9 else float("inf")


def between(x: Tensor) -> float:
    return 0.0 if bool(((x >= -0.5) & (x <= 0.25)).all()) else float("inf")


def in_groups(x: Tensor) -> float:
    """Return 2 |(x_0, x_2)| + 0.5 |x_1|, for more entries likewise: groups of even and of odd."""
    return float(2 * x[0::2].norm() + 0.5 * x[1::2].norm())


def by_parity(z: Tensor, step: float) -> Tensor:
    """Return the map of `in_groups`: an entry of zero fills up the rows."""
    rows = torch.cat([z, z.new_zeros(len(z) % 2)]).view(-1, 2)
    result = group_soft_threshold(torch.tensor([[2.0, 0.5]]), 0)(rows, step)
    return result.flatten()[: len(z)]


def of_waves(x: Tensor) -> float:
    return l1(torch.fft.fft(x, norm="ortho"))


def within_l1(x: Tensor) -> float:
    return 0.0 if l1(x) <= 1 + 1e-9 else float("inf")


def in_the_simplex(x: Tensor) -> float:
    """Return 0 there; a sum that is near 1 has a cost that draws random points onto it."""
    if bool((x < 0).any()):
        return float("inf")
    return 1e3 * abs(float(x.sum()) - 1)


def of_huber(x: Tensor) -> float:
    magnitude = x.abs()
    return 1.5 * float(
        torch.where(magnitude <= 0.5, magnitude**2 / 2, 0.5 * (magnitude - 0.25)).sum()
    )


def of_rows(x: Tensor) -> float:
    """Return 0.7 times the sum of the singular values of two rows; zeros fill them up."""
    return 0.7 * float(torch.linalg.svdvals(in_rows(x)).sum())


def in_rows(x: Tensor) -> Tensor:
    return torch.cat([x, x.new_zeros(len(x) % 2)]).view(2, -1)


def of_low_rank(z: Tensor, step: float) -> Tensor:
    return nuclear_norm(0.7)(in_rows(z), step).flatten()[: len(z)]


def count_nonzero(x: Tensor) -> float:
    return 0.3 * float(x.count_nonzero())


FUNCTIONS = [
    (l1_ball(1.0), within_l1, torch.complex128),
    (l1_ball(1.0), within_l1, torch.float64),
    (simplex(), in_the_simplex, torch.float64),
    (huber(1.5, 0.5), of_huber, torch.complex128),
    (huber(1.5, 0.5), of_huber, torch.float64),
    (by_parity, in_groups, torch.complex128),
    (by_parity, in_groups, torch.float64),
    (in_basis(FFT(1), soft_threshold()), of_waves, torch.complex128),
    (soft_threshold(), l1, torch.complex128),
    (soft_threshold(), l1, torch.float64),
    (l2_squared(1.5, 1.0), l2, torch.complex128),
    (l2_ball(1.0), within, torch.complex128),
    (l2_ball(1.0), within, torch.float64),
    (box(-0.5, 0.25), between, torch.float64),
    (no_penalty(), lambda x: 0.0, torch.complex128),
]


@pytest.mark.parametrize(("proximal", "function", "dtype"), FUNCTIONS)
@given(seed=seeds, step=steps)
def test_no_other_point_is_better(
    proximal: Proximal, function: object, dtype: torch.dtype, seed: int, step: float
) -> None:
    assert callable(function)
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(3, dtype=dtype, generator=generator)
    result = proximal(z, step)

    def cost(x: Tensor) -> float:
        return float(function(x)) + float((x - z).abs().square().sum()) / (2 * step)

    for scale in (1.0, 1e-1, 1e-2, 1e-3):
        others = result + scale * torch.randn(20, 3, dtype=dtype, generator=generator)
        assert all(cost(result) <= cost(other) + 1e-12 for other in others)


@pytest.mark.parametrize(("proximal", "function", "dtype"), FUNCTIONS)
@given(seed=seeds, step=steps)
def test_a_map_and_that_of_the_conjugate_are_the_identity_of_moreau(
    proximal: Proximal, function: object, dtype: torch.dtype, seed: int, step: float
) -> None:
    z = torch.randn(4, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    parts = conjugate(proximal)(z, step) + step * proximal(z / step, 1 / step)
    torch.testing.assert_close(parts, z)
    twice = conjugate(conjugate(proximal))
    torch.testing.assert_close(twice(z, step), proximal(z, step))


@given(seed=seeds, step=steps, dtype=st.sampled_from([torch.float64, torch.complex128]))
def test_singular_values_shrink_and_no_other_matrix_is_better(
    seed: int, step: float, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(4, dtype=dtype, generator=generator)
    result = of_low_rank(z, step)
    for scale in (1.0, 1e-1, 1e-2, 1e-3):
        for other in result + scale * torch.randn(20, 4, dtype=dtype, generator=generator):
            costs = [
                of_rows(x) + float((x - z).abs().square().sum()) / (2 * step)
                for x in (result, other)
            ]
            assert costs[0] <= costs[1] + 1e-12


@given(seed=seeds, step=steps, dtype=st.sampled_from([torch.float64, torch.complex128]))
def test_fewest_nonzeros_are_the_best_of_all_supports(
    seed: int, step: float, dtype: torch.dtype
) -> None:
    z = torch.randn(3, dtype=dtype, generator=torch.Generator().manual_seed(seed))

    def cost(x: Tensor) -> float:
        return count_nonzero(x) + float((x - z).abs().square().sum()) / (2 * step)

    supports = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    best = min(cost(z * support) for support in supports)
    assert cost(l0(0.3)(z, step)) == pytest.approx(best)


@given(seed=seeds, dim=st.sampled_from([0, -1, (0, 2), (2, 0), (1, 2), None]))
def test_sums_are_those_along_the_axes(seed: int, dim: int | tuple[int, ...] | None) -> None:
    z = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    axes = (0, 1, 2) if dim is None else dim
    within = l1_ball(2.5, dim)(z, 1.0)
    sums = z.abs().sum(axes)
    torch.testing.assert_close(within.abs().sum(axes), sums.clamp(max=2.5))
    result = simplex(2.5, dim)(z, 1.0)
    torch.testing.assert_close(result.sum(axes), torch.full_like(sums, 2.5))
    assert bool((result >= 0).all())
    # One slice by itself.
    if dim == 0:
        alone = simplex(2.5)(z[:, 1, 2], 1.0)
        torch.testing.assert_close(result[:, 1, 2], alone)
        torch.testing.assert_close(within[:, 1, 2], l1_ball(2.5)(z[:, 1, 2], 1.0))


def test_matrices_are_those_of_the_axes() -> None:
    z = torch.randn(3, 4, 5, dtype=torch.complex128)
    for dim in ((0, 2), (2, 0), (-1, 0), (-2, -1)):
        result = nuclear_norm(0.7, dim)(z, 2.0).movedim(dim, (-2, -1))
        before = torch.linalg.svdvals(z.movedim(dim, (-2, -1)))
        torch.testing.assert_close(torch.linalg.svdvals(result), (before - 1.4).clamp(min=0))


@settings(max_examples=settings().max_examples // 2)
@example("zero", 3, 4, torch.float64, 0)
@example("equal", 4, 3, torch.complex128, 0)
@given(
    st.sampled_from(["zero", "equal", "rank one", "any"]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([torch.float64, torch.complex128]),
    seeds,
)
def test_nuclear_norm_has_its_derivative_at_zero_and_equal_values(
    kind: str, rows: int, columns: int, dtype: torch.dtype, seed: int
) -> None:
    """By differences, of matrices side by side, and for the step."""
    generator = torch.Generator().manual_seed(seed)
    z, direction, cotangent = torch.randn(3, 2, rows, columns, dtype=dtype, generator=generator)
    U, S, Vh = torch.linalg.svd(z, full_matrices=False)
    S = {"zero": 0 * S, "equal": 0 * S + 1, "any": S, "rank one": S * (S == S[..., :1])}[kind]
    z = ((U * S.unsqueeze(-2)) @ Vh).requires_grad_()
    step = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    assume(bool(((S - 0.3).abs() > 1e-3).all()))

    def inner(z: Tensor, step: Tensor) -> Tensor:
        result = nuclear_norm(0.5)(z, step)  # type: ignore[arg-type]  # solvers have numbers
        return torch.vdot(cotangent.flatten(), result.flatten()).real

    result = torch.autograd.grad(inner(z, step), (z, step))
    h = 1e-5
    with torch.no_grad():
        along = (inner(z + h * direction, step) - inner(z - h * direction, step)) / (2 * h)
        of_step = (inner(z, step + h) - inner(z, step - h)) / (2 * h)
    torch.testing.assert_close(
        (result[0].conj() * direction).real.sum(), along, rtol=1e-4, atol=1e-6
    )
    torch.testing.assert_close(result[1], of_step, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's forward mode
def test_other_derivatives_of_nuclear_norm_agree_and_the_second_is_refused() -> None:
    g, z = nuclear_norm(0.5), torch.eye(3, 4, dtype=torch.float64).repeat(2, 1, 1)
    direction = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(2, 3, 4)

    def squared_norm(z: Tensor) -> Tensor:
        return g(z, 1.0).square().sum()

    gradient = torch.func.grad(squared_norm)(z)
    torch.testing.assert_close(gradient, torch.func.vmap(torch.func.grad(squared_norm))(z))
    along = torch.func.jvp(squared_norm, (z,), (direction,))[1]
    torch.testing.assert_close(along, (gradient * direction).sum())
    z.requires_grad_()
    (first,) = torch.autograd.grad(squared_norm(z), z, create_graph=True)
    with pytest.raises(RuntimeError, match=r"nuclear_norm: .* got a second derivative"):
        first.sum().backward()


@pytest.mark.parametrize("shape", [(17, 2), (2, 16), (2, 35, 4)])
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_nuclear_norm_of_blocks_of_rows_is_that_of_the_matrix(
    shape: tuple[int, ...], weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of blocks without full rank, whose decompositions have no derivative."""
    g, z = nuclear_norm(weight or 1.0), torch.randn(shape, dtype=torch.complex128)
    z[..., 3:, 0] = 0
    z.requires_grad_()
    cotangent = torch.randn_like(z)

    def results() -> list[Tensor]:
        parts = [g(z, 1.0 if weight else 0.0), g.value(z)]
        numbers = torch.vdot(cotangent.flatten(), parts[0].flatten()).real, parts[1]
        parts += [torch.autograd.grad(number, z)[0] for number in numbers]
        with torch.no_grad():
            return [*parts, g.value(z)]

    expected = results()
    monkeypatch.setattr(_tall, "_ROWS", 1)
    assert _singular_values._is_long(z)
    torch.testing.assert_close(results(), expected)


def test_projections_of_what_is_inside_far_and_large() -> None:
    z = torch.tensor([0.25, -0.5])
    assert torch.equal(l1_ball(1.0)(z, 1.0), z)
    assert torch.equal(l1_ball(float("inf"))(1e9 * z, 1.0), 1e9 * z)
    assert torch.equal(l1_ball(0.0)(z, 1.0), torch.zeros(2))
    # Sums of large numbers would lose what is projected.
    far = torch.tensor([1e6, 1e6 + 0.5, 0.0])
    assert torch.equal(simplex()(far, 1.0), torch.tensor([0.25, 0.75, 0.0]))
    half = torch.tensor([3.0, 1.0], dtype=torch.float16)
    for result in (l1_ball(2.0)(half, 1.0), simplex(2.0)(half, 1.0)):
        assert result.tolist() == [2.0, 0.0] and result.dtype == torch.float16
    assert huber(1.0, 1.0)(half, 1.0).dtype == torch.float16
    assert nuclear_norm()(half.view(1, 2), 1.0).dtype == torch.float16
    assert l0()(half, 1.0).tolist() == [3.0, 0.0]


def test_bounds_of_a_box_may_be_tensors_or_none() -> None:
    z = torch.tensor([[-2.0, 0.5, 3.0]])
    low = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64)
    assert box(low, None)(z, 1.0).tolist() == [[0.0, 1.0, 3.0]]
    assert box(low, 2.0)(z, 1.0).tolist() == [[0.0, 1.0, 2.0]]
    assert box(None, low)(z, 1.0).tolist() == [[-2.0, 0.5, -1.0]]
    assert box(low, low + 1)(z.half(), 1.0).dtype == torch.float16
    assert torch.equal(box(None, None)(z, 1.0), z)
    with pytest.raises(ValueError, match=r"box: lower must be at most upper"):
        box(low, 0.5)
    with pytest.raises(TypeError, match=r"box: bounds must be real, got torch.complex128"):
        box(low + 0j)
    with pytest.raises(ValueError, match=r"box: a bound must be broadcast to \(1, 2\), got shape"):
        box(low)(z[:, :2], 1.0)


def test_what_has_no_conjugate_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"conjugate: the function must be convex, got a map .* of l0"
    ):
        conjugate(l0())
    with pytest.raises(
        ValueError, match=r"conjugate: the function must be convex, got a map .* of l0"
    ):
        conjugate(in_basis(FFT(1), l0()))


def test_options_of_projections_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"l1_ball: radius must be at least 0, got -1"):
        l1_ball(-1.0)
    with pytest.raises(ValueError, match=r"simplex: total must be positive and finite, got 0"):
        simplex(0.0)
    with pytest.raises(TypeError, match=r"simplex: x must be real, got torch.complex64"):
        simplex()(torch.ones(1, dtype=torch.complex64), 1.0)
    with pytest.raises(ValueError, match=r"huber: delta must be positive and finite, got 0"):
        huber(1.0, 0.0)
    with pytest.raises(ValueError, match=r"nuclear_norm: dim must be two axes, .*, got \(0,\)"):
        nuclear_norm(1.0, (0,))
    with pytest.raises(ValueError, match=r"nuclear_norm: dim must be different axes of x, got"):
        nuclear_norm()(torch.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"l1_ball: dim must be different axes of x, got 3 for"):
        l1_ball(1.0, 3)(torch.ones(3), 1.0)
    with pytest.raises(TypeError, match=r"simplex: dim must be one or several integers, got 1.5"):
        simplex(1.0, 1.5)  # type: ignore[arg-type]


def test_weights_may_differ_from_entry_to_entry() -> None:
    weight = torch.tensor([0.0, 1.0, 9.0])
    assert torch.equal(
        soft_threshold(weight)(torch.full((3,), 2.0), 1.0), torch.tensor([2.0, 1.0, 0.0])
    )
    assert torch.equal(
        l2_squared(weight)(torch.full((3,), 2.0), 1.0), torch.tensor([2.0, 1.0, 0.2])
    )


WEIGHTED = [soft_threshold, group_soft_threshold, l2_squared]


@pytest.mark.parametrize("penalty", WEIGHTED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.float64])
def test_weights_of_any_precision_keep_the_dtype(penalty: Any, dtype: torch.dtype) -> None:
    z = torch.tensor([[3.0, -2.0]]).to(dtype)
    weights = [0.5, torch.tensor(0.5), torch.tensor([[0.5, 0.5]], dtype=torch.float64)]
    first, *others = (penalty(weight)(z, 1.0) for weight in weights)
    assert first.dtype == dtype
    for result in others:
        torch.testing.assert_close(result, first)


@pytest.mark.parametrize("penalty", WEIGHTED)
def test_integers_and_weights_that_do_not_fit_are_refused(penalty: Any) -> None:
    name = penalty.__name__
    with pytest.raises(TypeError, match=rf"^{name}: x must have floating-point .*, got torch.int"):
        penalty()(torch.tensor([[3, 4]]), 1.0)
    for shape in ((3,), (1, 1, 2)):
        with pytest.raises(
            ValueError, match=rf"^{name}: weight must be broadcast to \(1, 2\), got"
        ):
            penalty(torch.ones(shape))(torch.ones(1, 2), 1.0)


CENTERED = [l2_ball, l2_squared]


@pytest.mark.parametrize("penalty", CENTERED)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.complex64, torch.float64])
def test_centers_of_any_precision_keep_the_dtype(penalty: Any, dtype: torch.dtype) -> None:
    z = torch.tensor([[3.0, -2.0]]).to(dtype)
    for wide in (torch.float32, torch.float64, *([torch.complex128] if dtype.is_complex else [])):
        result = penalty(1.0, center=torch.tensor([0.5], dtype=wide))(z, 1.0)
        assert result.dtype == dtype
        torch.testing.assert_close(result, penalty(1.0, center=torch.full_like(z, 0.5))(z, 1.0))


@pytest.mark.parametrize("penalty", CENTERED)
def test_centers_that_do_not_fit_are_refused(penalty: Any) -> None:
    for shape in ((4,), (3, 1), (1, 3)):
        with pytest.raises(ValueError, match=r": center must be broadcast to \(3,\), got shape"):
            penalty(1.0, center=torch.ones(shape))(torch.ones(3), 1.0)
    with pytest.raises(TypeError, match=r": center must be real for real x, got tensor"):
        penalty(1.0, center=torch.ones(3) * 1j)(torch.ones(3), 1.0)


def test_groups_are_those_along_the_axes() -> None:
    z = torch.randn(3, 4, 5, dtype=torch.complex128)
    for dim in (0, 1, -1, (0, 2), (2, 0), (-3, -2, -1)):
        axes = (dim,) if isinstance(dim, int) else dim
        norms = z.abs().square().sum(axes, keepdim=True).sqrt()
        expected = z * (1 - 0.7 / norms).clamp(min=0)
        torch.testing.assert_close(group_soft_threshold(0.7, dim)(z, 1.0), expected)
    one_by_one = torch.randn(6, 1)
    assert torch.equal(
        group_soft_threshold(0.3, 1)(one_by_one, 2.0), soft_threshold(0.3)(one_by_one, 2.0)
    )


@pytest.mark.parametrize("exponent", [-100, 100])
def test_groups_may_be_in_any_unit(exponent: int) -> None:
    unit = 2.0**exponent
    z = torch.tensor([[3.0, 1.0, 0.0], [4.0, 0.0, 0.0]]) * unit
    result = group_soft_threshold(2.5 * unit)(z, 1.0)
    assert torch.equal(result / unit, torch.tensor([[1.5, 0.0, 0.0], [2.0, 0.0, 0.0]]))
    assert torch.equal(group_soft_threshold(0.0)(z, 1.0), z)


def test_half_precision_is_computed_in_single() -> None:
    z = torch.tensor([[300.0], [400.0]], dtype=torch.float16)
    assert group_soft_threshold(250.0)(z, 1.0).tolist() == [[150.0], [200.0]]
    assert group_soft_threshold(250.0)(z, 1.0).dtype == torch.float16


def test_a_penalty_in_a_basis_is_solved_there() -> None:
    F, y = FFT(1), torch.randn(8, dtype=torch.complex128)
    result = fista(Diagonal(torch.ones(8), ("Nx",)), y, in_basis(F, soft_threshold(0.4)))
    torch.testing.assert_close(F(result), soft_threshold(0.4)(F(y), 1.0))


def test_a_threshold_keeps_gradients_finite_at_zero() -> None:
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    torch.autograd.backward(soft_threshold()(z, 1.0).abs().sum())
    assert z.grad is not None and z.grad.isfinite().all()
    z.grad = None
    torch.autograd.backward(group_soft_threshold()(z, 1.0).abs().sum())
    assert z.grad is not None and z.grad.isfinite().all()


def test_gradients_of_groups_are_those_of_differences() -> None:
    z = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: group_soft_threshold(0.1)(z, 1.0), z)
    assert torch.autograd.gradcheck(lambda z: in_basis(FFT(1), soft_threshold(0.1))(z, 1.0), z)


@pytest.mark.parametrize("exponent", [-100, 100])
def test_a_ball_may_be_in_any_unit(exponent: int) -> None:
    unit = 2.0**exponent
    near = l2_ball(unit, center=torch.tensor([unit, 0.0]))
    torch.testing.assert_close(
        near(torch.tensor([unit, 3 * unit]), 1.0) / unit, torch.tensor([1.0, 1.0])
    )
    assert torch.equal(l2_ball(0.0)(torch.ones(2), 1.0), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64])
def test_weights_and_counts_of_a_camera_are_numbers_like_others(dtype: torch.dtype) -> None:
    x, counts = torch.tensor([5.0, 0.5]), torch.tensor([1, 2], dtype=dtype)
    for make in (soft_threshold, l2_squared, box, poisson_likelihood):
        assert torch.equal(make(counts)(x, 1.0), make(counts.float())(x, 1.0))


def test_what_is_not_convex_or_not_real_is_refused() -> None:
    with pytest.raises(ValueError, match=r"soft_threshold: weight must be at least 0 and finite"):
        soft_threshold(-1.0)
    with pytest.raises(ValueError, match=r"l2_squared: weight must be at least 0 and finite, got"):
        l2_squared(torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"l2_ball: radius must be at least 0, got -1"):
        l2_ball(-1.0)
    with pytest.raises(ValueError, match=r"group_soft_threshold: weight must be at least 0"):
        group_soft_threshold(-1.0)
    with pytest.raises(TypeError, match=r"dim must be one or several integers, got 1.5"):
        group_soft_threshold(1.0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"dim must be one or several integers, got \(\)"):
        group_soft_threshold(1.0, ())
    for dim in (2, -3, (0, -2)):
        with pytest.raises(ValueError, match=r"dim must be different axes of x, got .* \(2, 3\)"):
            group_soft_threshold(1.0, dim)(torch.ones(2, 3), 1.0)
    with pytest.raises(ValueError, match=r"weight must be broadcast to \(1, 3\), got shape \(2, 1"):
        group_soft_threshold(torch.ones(2, 1))(torch.ones(2, 3), 1.0)
    for shape in ((2,), (1, 1, 3)):
        with pytest.raises(ValueError, match=r"weight must be broadcast to \(1, 3\), got shape"):
            group_soft_threshold(torch.ones(shape))(torch.ones(2, 3), 1.0)
    with pytest.raises(ValueError, match=r"in_basis: W must be unitary, .*, got Diagonal"):
        in_basis(Diagonal(torch.ones(2), ("N",)), soft_threshold())
    with pytest.raises(ValueError, match=r"in_basis: W must be unitary, .*, got NamedLinop \(N\)"):
        in_basis(NamedLinop(NamedShape(("N",))), soft_threshold())  # it has no adjoint
    with pytest.raises(TypeError, match=r"in_basis: W must be a NamedLinop, got <class 'int'>"):
        in_basis(3, soft_threshold())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"in_basis: proximal must be .* got soft_threshold, which"):
        in_basis(FFT(1), soft_threshold)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"box: lower must be at most upper, .*, got 1 and 0"):
        box(1, 0)
    with pytest.raises(TypeError, match=r"box: x must be real, got torch.complex64"):
        box(0)(torch.ones(1, dtype=torch.complex64), 1.0)


def _is_mistaken(z: Any) -> Any:
    return z


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, r"proximal\w* must be an operator or a function, got 3"),
        (
            no_penalty,
            r"proximal\w* must be a function of z and t, got no_penalty, which must be called to "
            r"make one: no_penalty\(\)",
        ),
        (group_soft_threshold, r"got group_soft_threshold, which must be called to make one"),
        (box, r"got box, which must be called to make one: box\(\.\.\.\)"),
        (soft_threshold, r"got soft_threshold, which must be called to make one"),
        (_is_mistaken, r"must be a function of z and t, got <function .*: too many positional arg"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_solvers_refuse_what_is_no_proximal_map(
    wrong: Any, message: str, dtype: torch.dtype
) -> None:
    A, y = Diagonal(torch.ones(2, dtype=dtype), ("N",)), torch.ones(2, dtype=dtype)
    with pytest.raises(TypeError, match=f"fista: {message}" if wrong is no_penalty else message):
        fista(A, y, wrong)
    with pytest.raises(TypeError, match=message):
        admm(A, y, wrong)
    with pytest.raises(TypeError, match=message):
        pdhg(A, wrong, no_penalty(), y)
    with pytest.raises(TypeError, match=message):
        pdhg(A, no_penalty(), wrong, y)


def test_solvers_take_maps_that_do_not_say_their_arguments() -> None:
    y = torch.ones(2)
    assert fista(Diagonal(y, ("N",)), y, lambda *given: given[0]).allclose(y)


@pytest.mark.parametrize("large", [1e6, 3e7])
@pytest.mark.parametrize("make", [simplex, l1_ball])
def test_entries_may_be_large_against_their_sum(make: Any, large: float) -> None:
    result = make(1.0)(torch.full((2, 4), large), 1.0)
    torch.testing.assert_close(result, torch.full((2, 4), 0.125))
    rows = make(1.0, dim=-1)(torch.full((2, 4), large), 1.0)
    torch.testing.assert_close(rows, torch.full((2, 4), 0.25))


@pytest.mark.parametrize("proximal", [l0(), in_basis(FFT(1), l0())], ids=["l0", "in_basis"])
def test_solvers_for_convex_functions_refuse_others_alone_and_in_a_list(proximal: Proximal) -> None:
    A, y = Diagonal(torch.ones(2), ("N",)), torch.ones(2)
    calls: list[tuple[str, Callable[[], Tensor]]] = [
        (r"fista: the function of proximal must", lambda: fista(A, y, proximal)),
        (r"admm: the function of proximal must", lambda: admm(A, y, proximal)),
        (r"admm: the function of proximal\[0\]", lambda: admm(A, y, [proximal], [A])),
        (r"admm: the function of proximal must", lambda: split_bregman(A, y, proximal)),
        (r"admm: the function of proximal\[0\]", lambda: split_bregman(A, y, [proximal], [A])),
        (r"pdhg: the function of proximal_f must", lambda: pdhg(A, proximal, no_penalty(), y)),
        (r"pdhg: the function of proximal_f\[0\]", lambda: pdhg([A], [proximal], no_penalty(), y)),
        (r"pdhg: the function of proximal_g must", lambda: pdhg(A, no_penalty(), proximal, y)),
        (r"rachford: the .* proximal_f", lambda: douglas_rachford(proximal, no_penalty(), y)),
        (r"rachford: the .* proximal_g", lambda: douglas_rachford(no_penalty(), proximal, y)),
    ]
    for message, call in calls:
        with pytest.raises(ValueError, match=message + r".* be convex, got .* of l0, .*gradient"):
            call()
    assert proximal_gradient(A, y, l0(0.1)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("g", [soft_threshold(), lambda z, step: z])
def test_steps_of_a_conjugate_are_positive_numbers(g: Any) -> None:
    with pytest.raises(ValueError, match=r"conjugate: step must be positive, got 0; at step 0 use"):
        conjugate(g)(torch.ones(2), 0.0)
    with pytest.raises(ValueError, match=r"conjugate: step must be finite, got inf; use a large"):
        conjugate(g)(torch.ones(2), float("inf"))
    for map_of in (conjugate(g), soft_threshold()):
        with pytest.raises(TypeError, match=r"step must be a real number, got '1'"):
            map_of(torch.ones(2), "1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"conjugate: proximal must be an operator or a function"):
        conjugate(3)  # type: ignore[arg-type]
