"""The functions of proximal maps: their values, and the objectives that solvers report."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import DCT, Dense, VStack
from linops_solvers import (
    ProximalMap,
    Record,
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
    separable,
    simplex,
    soft_threshold,
)

W = torch.tensor([0.5, 2.0, 1.0])
BASIS = DCT(("N",)).to_dense(sizes={"N": 3}, dtype=torch.float64)


def huber_of(s: float) -> float:
    return s * s / 2 if s <= 0.7 else 0.7 * (s - 0.35)


def rows(x: Tensor) -> list[list[complex]]:
    return x.tolist()


def poisson_of(y: float, mean: float) -> float:
    return math.inf if mean <= 0 else mean - y + y * math.log(y / mean)


# Each with its function in plain Python, of a matrix with three columns.
KNOWN: dict[str, tuple[ProximalMap, Callable[[Tensor], float]]] = {
    "soft_threshold": (
        soft_threshold(W),
        lambda x: sum(w * abs(n) for row in rows(x) for n, w in zip(row, W.tolist(), strict=True)),
    ),
    "group_soft_threshold": (
        group_soft_threshold(2.0, dim=0),
        lambda x: sum(2 * math.sqrt(sum(abs(n) ** 2 for n in col)) for col in rows(x.mT)),
    ),
    "l0": (l0(0.5), lambda x: sum(0.5 * (n != 0) for row in rows(x) for n in row)),
    "huber": (huber(3.0, 0.7), lambda x: sum(3 * huber_of(abs(n)) for row in rows(x) for n in row)),
    "l2_squared": (
        l2_squared(W, 1.0),
        lambda x: sum(
            w * abs(n - 1) ** 2 / 2 for row in rows(x) for n, w in zip(row, W.tolist(), strict=True)
        ),
    ),
    "poisson_likelihood": (
        poisson_likelihood(W, 2.0),
        lambda x: sum(
            poisson_of(y, n.real + 2)
            for row in rows(x)
            for n, y in zip(row, W.tolist(), strict=True)
        ),
    ),
    "nuclear_norm": (
        nuclear_norm(1.5),
        lambda x: 1.5 * float(torch.linalg.eigvalsh(x @ x.mH).clamp(min=0).sqrt().sum()),
    ),
    "no_penalty": (no_penalty(), lambda x: 0.0),
    "in_basis": (
        in_basis(DCT(("N",)), soft_threshold()),
        lambda x: float((x @ BASIS.mT.to(x.dtype)).abs().sum()),
    ),
}
SETS: dict[str, ProximalMap] = {
    "box": box(-0.5, 1.0),
    "box with a tensor": box(W - 1, None),
    "l2_ball": l2_ball(1.3),
    "l2_ball around a centre": l2_ball(0.4, W),
    "l1_ball": l1_ball(1.7),
    "l1_ball of rows": l1_ball(0.6, dim=1),
    "simplex": simplex(2.0),
    "simplex of columns": simplex(0.3, dim=0),
    "in_basis": in_basis(DCT(("N",)), l1_ball(0.9)),
}
matrices = st.integers(0, 10**6).map(
    lambda seed: torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)).double()
)


@given(matrices, st.sampled_from([*KNOWN]), st.booleans())
def test_the_value_is_that_of_the_formula(x: Tensor, name: str, is_complex: bool) -> None:
    if is_complex and name != "poisson_likelihood":  # for real x only
        x = torch.complex(x, x.flip(0))
    known, formula = KNOWN[name]
    assert float(known.value(x)) == pytest.approx(formula(x), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("known", [huber(W, 0.7), l2_squared(W)])
def test_second_derivatives_of_squares_are_the_weights_also_at_zero(
    known: ProximalMap, dtype: torch.dtype
) -> None:
    x = torch.tensor([0.0, 0.5, 0.0], dtype=dtype, requires_grad=True)
    (slopes,) = torch.autograd.grad(known.value(x), x, create_graph=True)
    (second,) = torch.autograd.grad(slopes, x, torch.ones_like(x))
    assert torch.equal(second, W.to(dtype))


@given(matrices, matrices, st.sampled_from([*KNOWN, *SETS]))
def test_no_other_vector_is_better_than_the_proximal_map(z: Tensor, x: Tensor, name: str) -> None:
    known = KNOWN[name][0] if name in KNOWN else SETS[name]

    def function(x: Tensor) -> float:
        return float(known.value(x) + (x - z).square().sum() / (2 * 0.8))

    assert function(known(z, 0.8)) <= min(function(x), function(known(x, 0.8))) + 1e-6


@given(matrices, st.sampled_from([*SETS]), st.sampled_from([torch.float32, torch.float64]))
def test_a_set_is_zero_within_and_infinite_outside(
    x: Tensor, name: str, dtype: torch.dtype
) -> None:
    known, x = SETS[name], x.to(dtype)
    nearest = known(x, 1.0)
    assert known.value(nearest) == 0
    distance = float((nearest - x).norm())
    assert distance < 1e-3 or known.value(x) == math.inf


@pytest.mark.parametrize("name", [*SETS])
def test_nan_is_in_no_set(name: str) -> None:
    assert SETS[name].value(torch.full((2, 3), math.nan)) == math.inf


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: conjugate(soft_threshold()).value(W), NotImplementedError, r"only the map is"),
        (lambda: separable(lambda z, t: z).value(W), NotImplementedError, r"separable\(map, value"),
        (lambda: box(0, 1).value(1j * W), TypeError, r"box: x must be real"),
        (lambda: simplex().value(1j * W), TypeError, r"simplex: x must be real"),
        (lambda: l0().value(W.long()), TypeError, r"l0: x must have floating-point"),
        (lambda: soft_threshold(torch.ones(4)).value(W), ValueError, r"weight must be broadcast"),
        (lambda: separable(abs, value=3), TypeError, r"separable: value must be .* a function"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_value_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


MATRIX = torch.tensor([[2.0, 1.0, 0.0], [0.5, 1.5, 1.0]])
A = Dense(MATRIX, ("M", "N"), ("N",), ("M",))
Y = torch.tensor([3.0, -1.0])
G = soft_threshold(0.3)


def of_lasso(x: Tensor) -> float:
    return float((MATRIX @ x - Y).square().sum() / 2 + 0.3 * x.abs().sum())


@pytest.mark.parametrize("scale", [1.0, 1e15])
@pytest.mark.parametrize("solver", [fista, proximal_gradient, admm])
def test_a_solver_reports_its_objective(solver: Callable[..., Tensor], scale: float) -> None:
    record = Record()
    threshold = soft_threshold(0.3 * scale)
    x = solver(A, Y * scale, threshold, max_num_iters=300, callback=record)
    result = record.values["objective"]
    assert len(result) == record.iterations
    assert result[-1] / scale**2 == pytest.approx(of_lasso(x / scale), rel=1e-3)
    if solver is proximal_gradient:
        assert all(a >= b * (1 - 1e-6) for a, b in pairwise(result))


def test_splittings_report_the_sum_of_both_functions() -> None:
    record = Record()
    x = pdhg(A, l2_squared(1.0, Y), G, torch.zeros(3), max_num_iters=300, callback=record)
    assert record.values["objective"][-1] == pytest.approx(of_lasso(x), rel=1e-4)
    seen = Record()
    two = [l2_squared(2.0, Y), soft_threshold(0.1)]
    x = pdhg([A, 2 * A], two, G, torch.zeros(3), max_num_iters=300, callback=seen)
    expected = (MATRIX @ x - Y).square().sum() + 0.1 * (2 * MATRIX @ x).abs().sum()
    expected += 0.3 * x.abs().sum()
    assert seen.values["objective"][-1] == pytest.approx(float(expected), rel=1e-4)
    last = Record()
    x = douglas_rachford(l2_squared(1.0, W), G, torch.zeros(3), callback=last)
    expected = (x - W).square().sum() / 2 + 0.3 * x.abs().sum()
    assert last.values["objective"][-1] == pytest.approx(float(expected), rel=1e-3)


def test_penalties_of_several_operators_are_added() -> None:
    record = Record()
    L = [A, Dense(torch.eye(3), ("K", "N"), ("N",), ("K",))]
    x = admm(A, Y, [G, l2_squared(0.5)], L, max_num_iters=300, callback=record)
    expected = (MATRIX @ x - Y).square().sum() / 2 + 0.3 * (MATRIX @ x).abs().sum()
    expected += 0.25 * x.square().sum()
    assert record.values["objective"][-1] == pytest.approx(float(expected), rel=1e-2)


def test_a_map_of_the_user_has_no_objective_unless_its_function_is_given() -> None:
    record = Record()
    admm(VStack(A), Y, lambda z, t: G(z, t), max_num_iters=3, callback=record)
    assert "objective" not in record.values
    own = separable(lambda z, t: G(z, t), value=lambda x: 0.3 * x.abs().sum())
    x = fista(A, Y, own, max_num_iters=300, callback=record)
    assert record.values["objective"][-1] == pytest.approx(of_lasso(x), rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
def test_the_value_of_groups_of_zeros_is_zero_and_has_a_gradient(dtype: torch.dtype) -> None:
    x = torch.zeros(2, 3, dtype=dtype, requires_grad=True)
    value = group_soft_threshold(2.0).value(x)
    assert value == 0
    (slope,) = torch.autograd.grad(value, x)
    assert torch.equal(slope, torch.zeros_like(slope))
    assert group_soft_threshold()(x, 1.0).isfinite().all()


@pytest.mark.parametrize("value", [torch.ones(2), torch.tensor(1j), 1.0])
def test_a_value_that_is_not_one_real_number_is_refused(value: Any) -> None:
    g = separable(lambda z, step: z, value=lambda x: value)
    with pytest.raises(
        TypeError, match=r"separable: value must return a tensor with one real .*su"
    ):
        g.value(torch.ones(2))
    with pytest.raises(TypeError, match=r"separable: proximal must be an operator or a function"):
        separable(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"separable: dim must be one or several integers, got 'x'"):
        separable(lambda z, step: z, dims="x")  # type: ignore[arg-type]


def huber_map(z: Tensor, w: Tensor, t: float) -> Any:
    size = z.abs()
    return torch.where(size <= 0.7 * (1 + t * w), z / (1 + t * w), z * (1 - 0.7 * t * w / size))


def norm_map(z: Tensor, w: Tensor, t: float) -> Any:
    size = z.norm(dim=0, keepdim=True)
    return z * (1 - t * w / size).clamp(min=0)


def matrix_map(z: Tensor, w: Tensor, t: float) -> Any:
    U, S, Vh = torch.linalg.svd(z, full_matrices=False)
    return (U * (S - t * w).clamp(min=0)) @ Vh


def ball_map(z: Tensor, c: Tensor, t: float) -> Any:
    away = z - c
    return c + away / (away.norm() / 0.4).clamp(min=1)


# Each with its map in closed form, and a number that may be a tensor; the last needs a number.
CLOSED: dict[str, tuple[Callable[[Any], ProximalMap], Callable[[Tensor, Tensor, float], Any]]] = {
    "soft_threshold": (
        soft_threshold,
        lambda z, w, t: torch.where(z.abs() > t * w, z - t * w * z.sgn(), 0),
    ),
    "group_soft_threshold": (group_soft_threshold, norm_map),
    "l0": (l0, lambda z, w, t: torch.where(z.abs() > (2 * t * w).sqrt(), z, 0)),
    "huber": (lambda w: huber(w, 0.7), huber_map),
    "l2_squared": (lambda w: l2_squared(w, 0.3), lambda z, w, t: (z + 0.3 * t * w) / (1 + t * w)),
    "l2_squared around": (
        lambda c: l2_squared(0.3, c),
        lambda z, c, t: (z + 0.3 * t * c) / (1 + 0.3 * t),
    ),
    "l2_ball around": (lambda c: l2_ball(0.4, c), ball_map),
    "box from": (lambda low: box(low, 2.0), lambda z, low, t: z.clamp(min=low).clamp(max=2.0)),
    "poisson_likelihood": (
        poisson_likelihood,
        lambda z, y, t: (z - t + ((z - t).square() + 4 * t * y).sqrt()) / 2,
    ),
    "in_basis": (
        lambda w: in_basis(DCT(("N",)), huber(w, 0.7)),
        lambda z, w, t: huber_map(z @ BASIS.mT.to(z.dtype), w, t) @ BASIS.to(z.dtype),
    ),
    "nuclear_norm": (nuclear_norm, matrix_map),
}


@pytest.mark.parametrize("default", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CLOSED)
def test_points_are_those_of_closed_forms_under_any_default_dtype(
    name: str, default: torch.dtype
) -> None:
    """An error of the point is one of its square in the cost, which shows no lost digits."""
    make, closed = CLOSED[name]
    weight = torch.tensor(0.1, dtype=torch.float64)
    weights = torch.tensor([[0.1, 0.7, 1 / 3]], dtype=torch.float64)
    z = torch.tensor([[0.2, -1.3, 0.62], [4.7, 0.41, -0.9]], dtype=torch.float64)
    points = [z, z * 10.0] + [z * (0.6 + 0.8j)] * (name not in ("box from", "poisson_likelihood"))
    cases = [(0.1, weight)] + [(weights, weights)] * (name != "nuclear_norm")
    torch.set_default_dtype(default)
    try:
        results = [(make(given)(z, 0.37), closed(z, w, 0.37)) for given, w in cases for z in points]
    finally:
        torch.set_default_dtype(torch.float32)
    for result, wanted in results:
        torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-14)


def test_thresholds_of_l0_are_those_of_double_precision() -> None:
    edge = (2 * 0.37 * 0.1) ** 0.5
    z = edge * torch.tensor([1 - 1e-12, 1 + 1e-12], dtype=torch.float64)
    assert torch.equal(l0(0.1)(z, 0.37), torch.stack([torch.zeros_like(z[0]), z[1]]))


def test_bounds_of_a_box_are_compared_in_double_precision() -> None:
    with pytest.raises(ValueError, match=r"box: lower must be at most upper"):
        box(0.1, 0.1 - 1e-12)
    torch.set_default_dtype(torch.float16)
    try:
        assert float(box(1e6, 2e6)(torch.zeros((), dtype=torch.float64), 1.0)) == 1e6
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("delta", [1.0, 1e-50, 1e300])
def test_huber_has_a_gradient_at_the_smallest_numbers(delta: float) -> None:
    """The derivative of the branch that is not taken is out of range there."""
    z = torch.tensor([1e-30, -1e-20, 0.0, 1e-3], requires_grad=True)
    (gradient,) = torch.autograd.grad(huber(1.0, delta)(z, 1.0).sum(), z)
    torch.testing.assert_close(gradient[[0, 1, 3]], torch.full((3,), 0.5 if delta > 1e-3 else 1.0))
    assert gradient.isfinite().all()
