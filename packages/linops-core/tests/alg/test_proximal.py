from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Diagonal
from linops_core.alg import (
    Proximal,
    admm,
    box,
    conjugate,
    fista,
    l2_ball,
    l2_squared,
    no_penalty,
    pdhg,
    soft_threshold,
)

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


FUNCTIONS = [
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
    found = proximal(z, step)

    def cost(x: Tensor) -> float:
        return float(function(x)) + float((x - z).abs().square().sum()) / (2 * step)

    for scale in (1.0, 1e-1, 1e-2, 1e-3):
        others = found + scale * torch.randn(20, 3, dtype=dtype, generator=generator)
        assert all(cost(found) <= cost(other) + 1e-12 for other in others)


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


def test_weights_may_differ_from_entry_to_entry() -> None:
    weight = torch.tensor([0.0, 1.0, 9.0])
    assert torch.equal(
        soft_threshold(weight)(torch.full((3,), 2.0), 1.0), torch.tensor([2.0, 1.0, 0.0])
    )
    assert torch.equal(
        l2_squared(weight)(torch.full((3,), 2.0), 1.0), torch.tensor([2.0, 1.0, 0.2])
    )


def test_a_threshold_keeps_gradients_finite_at_zero() -> None:
    z = torch.zeros(2, dtype=torch.complex128, requires_grad=True)
    torch.autograd.backward(soft_threshold()(z, 1.0).abs().sum())
    assert z.grad is not None and z.grad.isfinite().all()


@pytest.mark.parametrize("exponent", [-100, 100])
def test_a_ball_may_be_in_any_unit(exponent: int) -> None:
    unit = 2.0**exponent
    near = l2_ball(unit, center=torch.tensor([unit, 0.0]))
    torch.testing.assert_close(
        near(torch.tensor([unit, 3 * unit]), 1.0) / unit, torch.tensor([1.0, 1.0])
    )
    assert torch.equal(l2_ball(0.0)(torch.ones(2), 1.0), torch.zeros(2))


def test_what_is_not_convex_or_not_real_is_refused() -> None:
    with pytest.raises(ValueError, match=r"soft_threshold: weight must be at least 0 and finite"):
        soft_threshold(-1.0)
    with pytest.raises(ValueError, match=r"l2_squared: weight must be at least 0 and finite, got"):
        l2_squared(torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"l2_ball: radius must be at least 0, got -1"):
        l2_ball(-1.0)
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
