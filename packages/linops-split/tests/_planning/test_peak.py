"""Counting memory: each storage once, from when it is made to when it is freed."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_core.testing.strategies import trees
from linops_split._planning._peak import AllocationCount, peak_nbytes
from linops_split._planning._without_data import QuickFakeMode

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
def test_storages_count_while_they_live(
    work: Callable[[], object], nbytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peak_nbytes(work).get(CPU, 0) == nbytes
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert peak_nbytes(work).get(CPU, 0) == nbytes
    mode = QuickFakeMode()
    assert [counted(mode, work) for _ in range(2)] == [nbytes] * 2
    monkeypatch.setitem(globals(), "x", mode.from_tensor(x))
    assert [counted(mode, work) for _ in range(2)] == [nbytes] * 2


def counted(mode: QuickFakeMode, work: Callable[[], object]) -> int:
    """Return the peak that the mode counts itself."""
    mode.count = AllocationCount()
    with mode:
        work()
    return mode.count.peaks.get(CPU, 0)


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
    mode = data.draw(st.sampled_from([QuickFakeMode(), FakeTensorMode(allow_non_fake_inputs=True)]))
    linop = known.linop

    def without_data(weight: Tensor) -> Tensor:
        return mode.from_tensor(weight.detach()).requires_grad_(weight.requires_grad)

    fake = linop.with_weights(without_data)
    x = torch.rand(known.spaces.lengths(known.spaces.ishape), dtype=torch.complex128)
    with torch.no_grad():
        result = peak_nbytes(lambda: linop(x))
        x = mode.from_tensor(x)
        with mode:
            assert peak_nbytes(lambda: fake(x)) == result
            fake = fake.with_weights(
                lambda weight: weight
            )  # which keeps nothing of the call before
            assert peak_nbytes(lambda: fake(x)) == result
        if isinstance(mode, QuickFakeMode):
            fake = fake.with_weights(lambda weight: weight)
            assert counted(mode, lambda: fake(x)) == result.get(CPU, 0)


def look(tensor: Tensor) -> object:
    kept = tensor.untyped_storage().nbytes(), tensor.storage_offset()
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_conj(), kept


def turned(x: Tensor) -> tuple[Tensor, ...]:
    """Return views of a tensor, before and after it gets another shape in place."""
    y = x.clone()
    first = y[0]
    return first, y.t_()[0], y.resize_(3, 2)[1:]


def added(x: Tensor) -> tuple[Tensor, ...]:
    """Return results that are written into arguments."""
    y = x.clone()
    return y.mul_(2), y.add_(x[0]), torch.mul(x, x, out=y), torch.mul(x, x, out=x.new_empty(0))


@pytest.mark.parametrize(
    "work",
    [
        turned,
        added,
        lambda x: [torch.addcmul(x, x, x, value=value) for value in (0.5, 2.0, 3)],
        lambda x: (x.real**2, x.real**0.5, x.real.clamp(min=0), x * math.nan, x.real.long() * 2.5),
        lambda x: x[1:, ::2].mT.conj(),
        lambda x: x.split(2),
        lambda x: x.unbind(),
        lambda x: (x * 2, x * 2.5, x * True, x > 1),
        lambda x: (x.real * 2, x.real * 2j, x.real + x),
        lambda x: x.expand(3, 4, 6) + x,
        lambda x: (x.to(x.dtype), x.contiguous(), x.mT.contiguous(), x.real.conj()),
        lambda x: (torch.fft.fft2(x), torch.fft.fft(x.mT), x @ x.mH, x.mul_(2), x.sum(0)),
        lambda x: torch.tensor([1.0, 2.0]) * 2,
        lambda x: torch.cat([x, x[1:]]),
        lambda x: (x.real.to_sparse().to_dense(), x.to("cpu"), torch.atleast_1d(x.sum())),
        lambda x: (x.real.int() / 2, torch.nn.functional.normalize(x.real), x.real.sort()[1]),
    ],
)
def test_tensors_without_data_look_like_those_of_torch(
    work: Callable[[Tensor], Tensor | tuple[Tensor, ...] | list[Tensor]],
) -> None:
    result = []
    quick = QuickFakeMode()
    for mode in (FakeTensorMode(allow_non_fake_inputs=True), quick, quick):
        x = mode.from_tensor(torch.zeros(4, 6, dtype=torch.complex64))
        with mode:
            results = work(x)
        several = [results] if isinstance(results, Tensor) else results
        storages = [x.untyped_storage()._cdata, *(t.untyped_storage()._cdata for t in several)]
        result.append(([look(t) for t in several], [storages.index(each) for each in storages]))
    assert result[0] == result[1] == result[2]


def test_results_that_share_memory_are_counted_once_however_often() -> None:
    mode = QuickFakeMode()
    x, w = (mode.from_tensor(torch.zeros(n)) for n in ((3, 4, 5), (5, 6)))
    with mode:  # A product of batches ends in a view that does not say so.
        assert [peak_nbytes(lambda: x @ w)[CPU] for _ in range(3)] == [4 * 72] * 3


def test_results_depend_on_the_default_dtype() -> None:
    mode = QuickFakeMode()
    x = mode.from_tensor(torch.zeros(3, dtype=torch.int32))
    with mode:
        assert (x / 2).dtype == torch.float32
        try:
            torch.set_default_dtype(torch.float64)
            assert (x / 2).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
