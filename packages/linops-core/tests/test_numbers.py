"""Checks of numbers: those of NumPy pass, truth values do not."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from linops_core import FFT, Roll, Zero
from linops_core._numbers import check_integer, check_real, is_finite, is_integer, is_size

INTEGERS = [3, np.int64(3), np.uint8(3)]
SCALARS = [np.array(3), torch.tensor(3)]
BOOLS = [True, np.True_, np.array(True), torch.tensor(True)]
OTHERS: list[Any] = ["3", None, 3j, torch.ones(1), np.ones(1), torch.tensor(3j), [3]]


@pytest.mark.parametrize("value", INTEGERS + SCALARS)
def test_integers_are_returned_as_those_of_python(value: Any) -> None:
    found = check_integer("f", "n", value, 3)
    assert type(found) is int and found == 3
    with pytest.raises(ValueError, match="f: n must be at least 4, got 3"):
        check_integer("f", "n", value, 4)
    assert type(check_real("f", "x", value)) is float


@pytest.mark.parametrize("value", [*BOOLS, *OTHERS, 3.0, torch.empty((), device="meta")])
def test_what_is_no_integer_is_refused(value: Any) -> None:
    assert not (is_integer(value) or is_size(value))
    with pytest.raises(TypeError, match="f: n must be an integer, got "):
        check_integer("f", "n", value)


@pytest.mark.parametrize("value", [*BOOLS, *OTHERS, torch.empty((), device="meta")])
def test_what_is_no_real_number_is_refused(value: Any) -> None:
    assert not is_finite(value)
    with pytest.raises(TypeError, match="f: x must be a real number, got "):
        check_real("f", "x", value, may_be_inf=True)


@pytest.mark.parametrize(
    ("value", "range_of", "rule"),
    [
        (math.nan, {}, "finite"),
        (math.inf, {}, "finite"),
        (math.nan, {"may_be_inf": True, "least": 0}, "at least 0"),
        (-1, {"least": 0}, "at least 0 and finite"),
        (0, {"above": 0}, "positive and finite"),
        (np.float32(2), {"above": 2}, "more than 2 and finite"),
        (torch.tensor(-1.0), {"above": 0, "may_be_inf": True}, "positive"),
    ],
)
def test_numbers_out_of_range_are_refused(value: Any, range_of: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^f: x must be {rule}, got "):
        check_real("f", "x", value, **range_of)


def test_numbers_in_range_pass() -> None:
    assert check_real("f", "x", math.inf, 0, may_be_inf=True) == math.inf
    assert check_real("f", "x", np.float32(0.5), above=0) == 0.5
    assert [is_integer(value, 0) for value in (-1, 0, np.int8(1))] == [False, True, True]
    assert [is_size(value) for value in (0, 1)] == [False, True]
    assert [is_finite(value) for value in (1, 0.5, np.float16(2), math.nan, math.inf)] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_operators_take_numbers_of_numpy_and_refuse_truth_values() -> None:
    assert FFT(np.int64(1), ()).ishape == FFT(1, ()).ishape  # type: ignore[arg-type]
    assert Zero(("N",), sizes={"N": np.int64(2)}).size("N") == 2  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="FFT: ndim must be a positive integer, got True"):
        FFT(True, ())
    with pytest.raises(ValueError, match="Zero: the size of N must be an integer of at least 0"):
        Zero(("N",), sizes={"N": True})
    with pytest.raises(ValueError, match="Roll: shifts must be integers"):
        Roll(("N",), [True])
