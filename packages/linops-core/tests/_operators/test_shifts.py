"""Roll and FourierShift; the laws of all run over `rolls` and `fourier_shifts`."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from linops_core import FourierShift, Identity, NamedLinop, Roll, SplitError
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


class TestRoll(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return Roll(("X", "Y"), [1, -2], [3, 4], shape=("Y", "B", "X"), to=("U", "V"))

    def sizes(self) -> dict[str, int]:
        return {"B": 2}


@pytest.mark.variant
class TestTileOfARoll(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        A = Roll(("X",), [2], [6], shape=("X",), to=("U",))
        return A.split_forward([slice(1, 6)], [slice(0, 4)])


class TestFourierShift(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        shifts = nn.Parameter(torch.tensor([0.3, -1.25], dtype=torch.float64))
        return FourierShift(("X", "Y"), shifts, shape=("Y", "B", "X"))

    def sizes(self) -> dict[str, int]:
        return {"B": 2, "X": 4, "Y": 3}


@pytest.mark.variant
class TestFourierShiftByNumbers(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return FourierShift(("X",), [0.3], to=("U",))

    def sizes(self) -> dict[str, int]:
        return {"X": 4, "U": 4}


def test_a_roll_is_that_of_torch() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    A = Roll(("Nx", "Ny"), [-1, 6])
    assert torch.equal(A(x), x.roll((-1, 6), (1, 2)))
    assert torch.equal(A.H(A(x)), x)
    assert isinstance(A.N, Identity)


def test_a_tile_of_a_roll_reads_the_shifted_slice() -> None:
    A = Roll(("N",), [2], [6], to=("M",))
    x = torch.arange(6.0)
    inside, over_the_end = ({ND("M"): slice(*ends)} for ends in ((2, 5), (0, 3)))
    assert A.split(A, inside).support("N") == slice(0, 3)
    tile = A.split(A, over_the_end)
    assert tile.support("N") == slice(0, 6)
    assert tile(x).tolist() == [4, 5, 0]
    nothing = A.split(A, {ND("M"): slice(0, 2), ND("N"): slice(0, 4)})
    assert nothing(x[:4]).tolist() == [0, 0]


@pytest.mark.parametrize("size", [4, 5])
def test_whole_shifts_are_rolls(size: int) -> None:
    x = torch.randn(3, size, dtype=torch.complex128)
    for shift in (0, 1, -2, 7):
        y = FourierShift(("N",), [shift])(x)
        torch.testing.assert_close(y, x.roll(shift, 1))


@pytest.mark.parametrize("size", [8, 9])
def test_a_wave_is_moved_by_the_shift(size: int) -> None:
    n = torch.arange(size, dtype=torch.float64)
    for k in (-4, -1, 0, 3):
        wave = torch.exp(2j * math.pi * k * n / size)
        moved = torch.exp(2j * math.pi * k * (n - 0.3) / size)
        torch.testing.assert_close(FourierShift(("N",), [0.3])(wave), moved)


@pytest.mark.parametrize("size", [4, 5])
def test_shifts_add_up_and_keep_the_norm(size: int) -> None:
    x = torch.randn(2, size, dtype=torch.complex128)
    A, B, C = (FourierShift(("N",), [shift]) for shift in (0.3, 0.45, 0.75))
    torch.testing.assert_close(B(A(x)), C(x))
    torch.testing.assert_close(A.H(A(x)), x)
    assert isinstance(A.N, Identity)


def test_an_odd_number_of_points_stays_real_and_an_even_one_does_not_at_its_last_frequency() -> (
    None
):
    A = FourierShift(("N",), [0.5])
    assert A(torch.randn(7, dtype=torch.float64)).imag.abs().max() < 1e-14
    zigzag = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(A(zigzag), 1j * zigzag)


def test_gradients_reach_the_shifts() -> None:
    shifts = nn.Parameter(torch.tensor([0.25], dtype=torch.float64))
    n = torch.arange(8, dtype=torch.float64)
    wave = torch.exp(2j * math.pi * n / 8)
    A = FourierShift(("N",), shifts)
    # The real part at 0 is the cosine of the shift.
    A(wave)[0].real.backward()
    assert shifts.grad is not None
    expected = -2 * math.pi / 8 * math.sin(2 * math.pi * 0.25 / 8)
    torch.testing.assert_close(shifts.grad, torch.tensor([expected], dtype=torch.float64))


def test_single_precision_is_kept_for_large_shifts() -> None:
    x = torch.randn(512, dtype=torch.complex64)
    y = FourierShift(("N",), [1e5 + 3])(x)
    assert y.dtype == torch.complex64
    torch.testing.assert_close(y, x.roll(int(1e5 + 3)), rtol=1e-5, atol=1e-5)


def test_shifts_do_not_decide_the_dtype() -> None:
    shifts = nn.Parameter(torch.tensor([0.25], dtype=torch.float64))
    A, x = FourierShift(("N",), shifts), torch.randn(8)
    assert A(x).dtype == A.H(x).dtype == torch.complex64
    torch.testing.assert_close(A(x), A(x.double()).to(torch.complex64))
    A(x).abs().sum().backward()
    assert shifts.grad is not None and shifts.grad.dtype == torch.float64


def test_integers_become_complex() -> None:
    assert FourierShift(("N",), [1])(torch.tensor([1, 2])).dtype == torch.complex64


def test_what_cannot_be_cut_says_why() -> None:
    A = Roll(("N",), [1])
    with pytest.raises(SplitError, match=r"to= other names for the output, or .*; give sizes=$"):
        A.split(A, {ND("N"): slice(0, 1)})
    B = FourierShift(("N",), [1], to=("M",))
    with pytest.raises(SplitError, match=r"a shift through the Fourier transform mixes all"):
        B.split(B, {ND("M"): slice(0, 1)})


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Roll(("N",), [0.5]),  # type: ignore[list-item]
            ValueError,
            r"got \(0.5,\); FourierShift shifts by fractions",
        ),
        (
            lambda: Roll(("N",), [1, 2]),
            ValueError,
            r"integers, one for each of \('N',\), got \(1, 2",
        ),
        (lambda: Roll(("N",), 1), TypeError, r"Roll: shifts must be a sequence, one for each"),  # type: ignore[arg-type]
        (lambda: Roll(("N",), [1], [0]), ValueError, r"Roll: sizes must be positive integers"),
        (
            lambda: FourierShift(("N",), [math.inf]),
            ValueError,
            r"finite real numbers, .* got \(inf",
        ),
        (
            lambda: FourierShift(("N",), [1.0, 2.0]),
            ValueError,
            r"one for each of \('N',\), got \(1.0",
        ),
        (lambda: FourierShift(("N",), 0.5), TypeError, r"FourierShift: shifts must be a sequence"),  # type: ignore[arg-type]
        (
            lambda: FourierShift(("N",), torch.ones(2)),
            ValueError,
            r"the shape \(1,\) .* got \(2,\)",
        ),
        (
            lambda: FourierShift(("N",), torch.tensor([math.nan])),
            ValueError,
            r"FourierShift: shifts must be finite, got \[nan",
        ),
        (
            lambda: FourierShift(("N",), torch.tensor([1])),
            TypeError,
            r"real numbers, got torch.int64",
        ),
        (
            lambda: FourierShift(("...",), [1.0]),
            ValueError,
            r"FourierShift: dims must be different",
        ),
    ],
)
def test_what_is_no_shift_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
