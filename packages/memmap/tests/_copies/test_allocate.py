"""Memory that is asked for in huge pages is memory as any other, also where it is refused."""

import ctypes
import mmap

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memmap import memory_aware_deepcopy, same_storage
from memmap._copies import _allocate
from memmap._copies._allocate import empty_bytes, whole_pages

CPU = torch.device("cpu")
HUGE_FROM = 8 << 20


@pytest.fixture(autouse=True)
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Huge pages from a smaller size on, because the real one takes seconds."""
    monkeypatch.setattr("memmap._copies._allocate.HUGE_FROM", HUGE_FROM)
    monkeypatch.setattr("memmap._copies._unshared.HUGE_FROM", HUGE_FROM)


class Libc:
    """A C library that notes down what it is asked, and refuses it."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def madvise(self, start: ctypes.c_void_p, nbytes: ctypes.c_size_t, advice: int) -> int:
        self.asked.append((start.value or 0, nbytes.value))
        return -1


@pytest.fixture
def libc(monkeypatch: pytest.MonkeyPatch) -> Libc:
    refusing = Libc()
    monkeypatch.setattr(_allocate, "_libc", lambda: refusing)
    monkeypatch.setattr("sys.platform", "linux")
    return refusing


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 20), st.sampled_from([4096, 16384, 65536]))
def test_whole_pages_are_all_pages_that_lie_in_the_bytes(
    start: int, nbytes: int, page: int
) -> None:
    first, last = whole_pages(start, nbytes, page)
    assert first % page == last % page == 0
    pages = range(start // page * page, start + nbytes, page)
    inside = [at for at in pages if start <= at and at + page <= start + nbytes]
    assert [*range(first, last, page)] == inside


def test_a_copy_is_right_where_huge_pages_are_refused(libc: Libc) -> None:
    flat = torch.arange(HUGE_FROM // 4, dtype=torch.int32)
    views = [torch.nn.Parameter(part, requires_grad=False) for part in (flat[:-5], flat[7:])]
    del flat
    left, right = memory_aware_deepcopy(torch.nn.ParameterList(views))
    assert torch.equal(left, views[0]) and torch.equal(right, views[1])
    assert same_storage(left, right) and not same_storage(left, views[0])
    ((start, nbytes),) = libc.asked
    storage = left.untyped_storage()
    assert storage.data_ptr() <= start
    assert start + nbytes <= storage.data_ptr() + storage.nbytes()


def test_only_large_memory_is_asked_for_in_huge_pages(libc: Libc) -> None:
    empty_bytes(HUGE_FROM - 1, CPU)
    empty_bytes(HUGE_FROM, torch.device("meta"))
    assert libc.asked == []
    data = empty_bytes(HUGE_FROM, CPU)
    first, last = whole_pages(data.data_ptr(), HUGE_FROM, mmap.PAGESIZE)
    assert libc.asked == [(first, last - first)]


def test_memory_stays_resizable() -> None:
    data = empty_bytes(HUGE_FROM, CPU)
    data.fill_(3)
    data.untyped_storage().resize_(2 * HUGE_FROM)
    assert data.untyped_storage().nbytes() == 2 * HUGE_FROM
    assert bool((data == 3).all())
    data.untyped_storage().resize_(0)
    assert data.untyped_storage().nbytes() == 0
