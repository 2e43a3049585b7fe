"""Maps of functions of arrays; ``witnesses`` has those of SPORCO, pyunlocbox and SCICO."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_solvers import (
    ProximalMap,
    from_proximal,
    group_soft_threshold,
    l0,
    l2_squared,
    nuclear_norm,
    soft_threshold,
)

np = pytest.importorskip("numpy")
SHAPE = (3, 4)
Function = Callable[[Any, float], Any]


def numpy_map(ours: ProximalMap) -> tuple[Callable[[Any], float], Function]:
    def value(x: Any) -> float:
        return float(ours.value(torch.from_numpy(x)))

    def prox(z: Any, step: float) -> Any:
        return ours(torch.from_numpy(z), step).numpy()

    return value, prox


def point(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(SHAPE, dtype=dtype, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize(
    "ours",
    [
        l0(0.3),
        soft_threshold(0.7),
        l2_squared(1.3),
        group_soft_threshold(0.4, 0),
        group_soft_threshold(0.4, (0, 1)),
        nuclear_norm(0.2),
    ],
)
def test_values_of_ours_give_ours(ours: ProximalMap, dtype: torch.dtype) -> None:
    result = from_proximal(*numpy_map(ours), SHAPE, dtype=dtype)
    z = point(dtype).requires_grad_()
    torch.testing.assert_close(result(z, 0.6), ours(z, 0.6))
    assert result(z, 0.6).requires_grad


def fourth(x: Any) -> float:
    return float((abs(x) ** 4).sum()) / 4


def fourth_map(z: Any, step: float) -> Any:
    """Return the root of x + step x^3 = z by Newton's method, for real numbers."""
    x = z.real.copy()
    for _ in range(60):
        x -= (x + step * x**3 - z.real) / (1 + 3 * step * x**2)
    return x


def test_others_are_called() -> None:
    result = from_proximal(fourth, fourth_map, SHAPE)
    z = point()
    np.testing.assert_allclose(result(z, 0.6).numpy(), fourth_map(z.numpy(), 0.6))
    assert result.is_convex and float(result.value(z)) == pytest.approx(fourth(z.numpy()))
    assert result(z.float(), 0.6).dtype == torch.float32
    with pytest.raises(TypeError, match=r"from_proximal: z must be real, as .* got torch\.com"):
        result(z.to(torch.complex64), 0.6)
    with pytest.raises(NotImplementedError, match="from_proximal: z must not require gradients"):
        result(z.requires_grad_(), 0.6)


@pytest.mark.parametrize("kind", [bool, np.bool_])
def test_the_map_of_an_indicator_is_the_projection(kind: Any) -> None:
    result = from_proximal(lambda x: kind((x >= 0).all()), lambda z, step: z.clip(0), SHAPE)
    assert torch.equal(result(point(), 0.6), point().clamp(min=0)) and result.is_convex
    assert float(result.value(point())) == math.inf and float(result.value(point().abs())) == 0


def test_a_map_that_loses_the_imaginary_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"from_proximal: prox must minimise .* write the map"):
        from_proximal(fourth, fourth_map, SHAPE, dtype=torch.complex128)


def test_a_map_that_is_not_that_of_its_value() -> None:
    def count(x: Any) -> float:
        return 2 * float((x != 0).sum())

    def cut(z: Any, step: float) -> Any:
        return z * (abs(z) > step)

    with pytest.raises(ValueError, match=r"prox must minimise .*; pass by_value=True for the map"):
        from_proximal(count, cut, SHAPE)
    with pytest.warns(UserWarning, match="prox must minimise .*; the map of its value is used"):
        result = from_proximal(count, cut, SHAPE, by_value=True)
    torch.testing.assert_close(result(point(), 0.6), l0(2.0)(point(), 0.6))
    with pytest.raises(ValueError, match="prox must minimise"):
        from_proximal(fourth, cut, SHAPE, by_value=True)


def test_a_shape_may_have_no_entries() -> None:
    result = from_proximal(fourth, fourth_map, (0, 3))
    assert result(torch.empty(0, 3), 1.0).shape == (0, 3)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="from_proximal: dtype must be float64 or complex128, got"):
        from_proximal(fourth, fourth_map, SHAPE, dtype=torch.float32)
