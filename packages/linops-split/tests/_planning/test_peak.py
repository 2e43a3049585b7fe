"""Counting memory: each storage once, from when it is made to when it is freed."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_core.testing.strategies import trees
from linops_split._planning._peak import peak_nbytes

CPU = torch.device("cpu")
N = 1000
x = torch.zeros(N)  # 4000 bytes


def in_place() -> None:
    y = x.clone()
    y.mul_(2).add_(1)


def one_after_another() -> None:
    for _ in range(3):
        x.clone()


def kept() -> list[Tensor]:
    return [x.clone() for _ in range(3)]


def enlarged() -> None:
    y = torch.empty(0)
    torch.add(x, 1, out=y)


def enlarged_and_freed() -> None:
    enlarged()
    enlarged()


def enlarged_twice_and_freed() -> None:
    for _ in range(2):
        torch.empty(10).resize_(N // 2).resize_(N)


def many() -> None:
    torch.stack(x.clone().unbind()[:2])


@pytest.mark.parametrize(
    ("work", "nbytes"),
    [
        (lambda: x, 0),
        (lambda: x.reshape(10, 100)[3:].mT.flatten(0, 0), 0),
        (lambda: x + 1, 4000),
        (lambda: (x + 1) * 2, 8000),
        (lambda: (x + 1).view(10, 100)[:5] * 2, 6000),
        (lambda: x.clone().sum(), 4004),
        (in_place, 4000),
        (one_after_another, 4000),
        (kept, 12000),
        (enlarged, 4000),
        (enlarged_and_freed, 4000),
        (enlarged_twice_and_freed, 4000),
        (many, 4008),
    ],
)
def test_storages_count_while_they_live(work: Callable[[], object], nbytes: int) -> None:
    assert peak_nbytes(work).get(CPU, 0) == nbytes
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert peak_nbytes(work).get(CPU, 0) == nbytes


def test_what_was_there_before_does_not_count_unless_it_grows() -> None:
    y = torch.empty(10)
    assert peak_nbytes(lambda: y.mul_(2)) == {CPU: 0}
    assert peak_nbytes(lambda: y.resize_(15)) == {CPU: 20}


def test_each_device_is_counted_by_itself() -> None:
    assert peak_nbytes(lambda: (x + 1, x.to("meta"), torch.empty(3, device="meta"))) == {
        CPU: 4000,
        torch.device("meta"): 4012,
    }


def test_errors_of_the_work_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        peak_nbytes(lambda: 1 / 0)


@given(st.data())
def test_operators_count_the_same_with_and_without_data(data: st.DataObject) -> None:
    known = data.draw(trees())
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    linop = known.linop
    fake = linop.with_weights(lambda weight: mode.from_tensor(weight.detach()))
    x = torch.rand(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    with torch.no_grad():
        found = peak_nbytes(lambda: linop(x))
        x = mode.from_tensor(x)
        with mode:
            assert peak_nbytes(lambda: fake(x)) == found
