"""Phases between lines that are read forwards and backwards."""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Parameter

from linops_core import FFT, Identity, NamedLinop
from linops_core.testing import BaseNamedLinopTests, dottest
from linops_imaging import NUFFT, epi

ODD = torch.arange(4) % 2 == 1


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.complex128, generator=generator)


class TestLinePhase(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        constant, slope = torch.tensor([[0.3, 2.0], [-0.4, 1.0]], dtype=torch.float64)
        return epi.LinePhase(
            Parameter(constant),
            slope,
            ODD.clone(),
            5,
            phase_dims=("S",),
            shape=("C", "Nx", "S", "Ky"),
            dims=("Ky", "Nx"),
        )

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@pytest.mark.variant
class TestOneLine(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return epi.LinePhase(0.3, Parameter(torch.tensor(0.7).double()), ODD.clone(), 3)


@given(st.integers(1, 5), st.integers(1, 5), st.floats(-4, 4), st.floats(-4, 4), st.integers(0, 31))
def test_each_line_is_multiplied_by_its_phase(
    n_lines: int, n: int, constant: float, slope: float, bits: int
) -> None:
    is_reversed = torch.tensor([bool(bits >> k & 1) for k in range(n_lines)])
    x = random(2, n_lines, n)
    result = epi.LinePhase(constant, slope, is_reversed, n)(x)
    for line in range(n_lines):
        for at in range(n):
            phase = cmath.exp(1j * (constant + slope * (at - n // 2))) if is_reversed[line] else 1
            torch.testing.assert_close(result[:, line, at], x[:, line, at] * phase)


def model(constant: Any, slope: Any, ny: int, nx: int) -> NamedLinop:
    """Return the Fourier transform of an image whose odd lines are read backwards."""
    G = epi.LinePhase(constant, slope, torch.arange(ny) % 2 == 1, nx)
    readout = FFT(dims=("Nx",), to=("Kx",), centered=True)
    return readout @ G @ FFT(dims=("Ny",), shape=("...", "Ny", "Nx"), to=("Ky",), centered=True)


def reference(constant: float, slope: float, n: int, drift: float, *, turned: bool) -> Tensor:
    """Return three lines (C, 3, X) of k-space without phase encoding; the drift depends on x."""
    profile = random(2, 1, n, seed=1)
    is_reversed = torch.tensor([turned, not turned, turned])
    at = torch.arange(n) - n // 2
    angle = is_reversed[:, None] * (constant + slope * at)
    angle = angle + torch.tensor([-1.0, 0.0, 1.0])[:, None] * (drift + 0.05 * at)
    return FFT(1, centered=True)(profile * torch.exp(1j * angle))


@given(
    st.integers(2, 8),
    st.floats(-3.1, 3.1),
    st.floats(-3.1, 3.1),
    st.floats(-1.2, 1.2),
    st.booleans(),
)
def test_a_linear_phase_is_found_exactly(
    n: int, constant: float, slope: float, drift: float, turned: bool
) -> None:
    lines = reference(constant, slope, n, drift, turned=turned)
    result = epi.estimate_phase(lines, torch.tensor([turned, not turned, turned]))
    for value, expected in zip(result, (constant, slope), strict=True):
        assert abs(torch.exp(1j * value) - torch.exp(1j * torch.tensor(expected))) < 1e-5
    several = epi.estimate_phase(
        torch.stack([lines, 2j * lines]), torch.tensor([turned, not turned, turned])
    )
    for value, one in zip(several, result, strict=True):
        torch.testing.assert_close(value, one.expand(2))


def test_the_ghost_is_removed() -> None:
    """The image is found exactly with the estimated phase; without it a ghost has 40 per cent."""
    image = torch.zeros(2, 16, 12, dtype=torch.complex128)
    image[:, 6:11, 3:9] = random(2, 5, 6).abs() + 1
    lines = model(0.7, -0.2, 16, 12)(image)
    constant, slope = epi.estimate_phase(
        reference(0.7, -0.2, 12, 0.3, turned=False), torch.tensor([False, True, False])
    )
    torch.testing.assert_close(model(constant, slope, 16, 12).H(lines), image)
    ghost = model(0.0, 0.0, 16, 12).H(lines)
    shifted = image.roll(8, 1) != 0
    assert ghost[shifted].norm() > 0.3 * image.norm()


def test_it_composes_with_non_uniform_readouts_and_stays_unitary() -> None:
    locs = torch.linspace(-3, 2.9, 9, dtype=torch.float64)[:, None]
    G = epi.LinePhase(0.7, -0.2, ODD, 6)
    readout = NUFFT(locs, (6,), ("Kx",), ("Nx",), batch_shape=("...", "Ky"), tol=1e-9)
    A = readout @ G @ FFT(dims=("Ny",), shape=("...", "Ny", "Nx"), to=("Ky",), centered=True)
    x = random(4, 6)
    hybrid = FFT(dims=("Ny",), shape=("...", "Ny", "Nx"), to=("Ky",), centered=True)(x)
    at = torch.arange(6) - 3
    dense = torch.exp(-2j * torch.pi * locs * at / 6) / 6**0.5
    expected = (hybrid * torch.exp(1j * ODD[:, None] * (0.7 - 0.2 * at))) @ dense.mT
    torch.testing.assert_close(A(x), expected, atol=1e-7, rtol=0)
    dottest(A, like=x)
    assert isinstance(G.N, Identity)


def test_gradients_reach_constant_and_slope() -> None:
    c, b = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, -0.2))
    x = random(3, 4, 5)

    def loss(constant: Tensor, slope: Tensor) -> Tensor:
        return (model(constant, slope, 4, 5).H(x) * random(3, 4, 5, seed=2)).real.sum()

    assert torch.autograd.gradcheck(loss, (c, b))
    lines = reference(0.7, -0.2, 5, 0.1, turned=False).requires_grad_()
    sum(epi.estimate_phase(lines, torch.tensor([False, True, False]))).backward()  # type: ignore[union-attr]
    assert lines.grad is not None and lines.grad.isfinite().all()


def test_results_have_the_precision_of_the_phase() -> None:
    G = epi.LinePhase(0.3, 0.1, ODD, 5)
    for dtype, expected in (
        (torch.float32, torch.complex64),
        (torch.float64, torch.complex128),
        (torch.complex64, torch.complex64),
    ):
        assert G(torch.ones(4, 5, dtype=dtype)).dtype == expected


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"is_reversed": [True]}, TypeError, "is_reversed must be a tensor of bool, got <class 'l"),
        ({"is_reversed": torch.ones(4)}, TypeError, r"a tensor of bool, got torch\.float32"),
        ({"is_reversed": ODD[None]}, ValueError, r"is_reversed must have 1 dimensions for lines"),
        ({"n_readout": 0}, ValueError, "n_readout must be at least 1, got 0"),
        ({"constant": "a"}, TypeError, "constant must be a real number, got 'a'"),
        ({"slope": torch.tensor(1j)}, TypeError, r"slope must be real, got torch\.complex64"),
        ({"slope": torch.tensor(torch.inf)}, ValueError, "slope must be finite, got NaN or inf"),
        ({"slope": torch.ones(2)}, ValueError, r"slope must have 0 dimensions for phase"),
        ({"dims": ("Nx",)}, ValueError, "dims must be the lines and the readout, .* got dims"),
        ({"shape": ("Ky", "C")}, ValueError, r"shape must have these and phase_dims, got dims"),
        ({"shape": ("Ky", "...", "Nx")}, ValueError, r"must have \.\.\. as its first dimension"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    given: dict[str, Any] = {
        "constant": 0.1,
        "slope": 0.1,
        "is_reversed": ODD,
        "n_readout": 4,
    } | arguments
    with pytest.raises(error, match=f"LinePhase: .*{match}"):
        epi.LinePhase(**given)


@pytest.mark.parametrize(
    ("lines", "is_reversed", "error", "match"),
    [
        (
            torch.ones(1, 3, 4),
            [False, True, False],
            TypeError,
            r"tensor, got torch\.float32",
        ),
        ([1j], [False, True, False], TypeError, "complex tensor, got <class 'list'>"),
        (random(1, 4, 4), [False, True, False], ValueError, r"must be \(\.\.\., C, 3, X\)"),
        (random(3, 4), [False, True, False], ValueError, r"got the shape \(3, 4\)"),
        (random(0, 2, 3, 4), [False, True, False], ValueError, r"got the shape \(0, 2, 3, 4\)"),
        (
            random(1, 3, 4),
            [False, True, True],
            ValueError,
            "middle one in the other direction",
        ),
        (random(1, 3, 4), 5, ValueError, r"is_reversed \[5\]; select three lines"),
        (random(1, 3, 4), torch.zeros(3, 3), ValueError, "middle one in the other direction"),
        (0 * random(1, 3, 4), [True, False, True], ValueError, "must be finite and have a signal"),
        (random(1, 3, 4) / 0, [True, False, True], ValueError, "must be finite and have a signal"),
    ],
)
def test_errors_of_estimates(
    lines: Any, is_reversed: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=f"estimate_phase: .*{match}"):
        epi.estimate_phase(lines, is_reversed)


@given(
    st.integers(1, 6),
    st.integers(1, 5),
    *[st.sampled_from([0.0, 0.5, 2.0]) for _ in range(3)],
    st.floats(0.2, 1),
)
def test_samples_on_ramps_are_where_the_area_says(
    n: int, n_readout: int, up: float, flat: float, down: float, part: float
) -> None:
    """The area is summed over short steps of the gradient."""
    total = up + flat + down
    if not total:
        return
    dwell, n_steps = part * total / n, 2000
    steps = (torch.arange(n_steps * n, dtype=torch.float64) + 0.5) * (dwell / n_steps)
    t = steps + (total - n * dwell) / 2
    gradient = torch.ones_like(t)
    if up:
        gradient = torch.minimum(gradient, t / up)
    if down:
        gradient = torch.minimum(gradient, (total - t) / down)
    area = torch.cat([torch.zeros(1, dtype=torch.float64), gradient.cumsum(0)]) / gradient.sum()
    expected = n_readout * (area[n_steps // 2 :: n_steps] - area[n_steps * n // 2])
    result = epi.trapezoid(n, n_readout, dwell, up, flat, down)
    torch.testing.assert_close(result.squeeze(1), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((0, 4, 1.0, 1.0, 4.0, 1.0), ValueError, "n_samples must be at least 1, got 0"),
        ((4, 0, 1.0, 1.0, 4.0, 1.0), ValueError, "n_readout must be at least 1, got 0"),
        ((4, 4, 0.0, 1.0, 4.0, 1.0), ValueError, "dwell_time must be positive"),
        ((4, 4, 1.0, -1.0, 4.0, 1.0), ValueError, "ramp_up must be at least 0"),
        ((4, 4, 1.0, 1.0, None, 1.0), TypeError, "flat_top must be a real number, got None"),
        ((4, 4, 1.0, 1.0, 1.0, 1.0), ValueError, "4 samples must be within the gradient of 3, got"),
    ],
)
def test_errors_of_ramps(arguments: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=f"trapezoid: {match}"):
        epi.trapezoid(*arguments)
