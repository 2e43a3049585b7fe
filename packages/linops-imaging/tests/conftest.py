"""Fixtures of all tests of this package."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile


@pytest.fixture
def allocated() -> Callable[[Callable[[], object]], int]:
    """Return the function that tells how many bytes torch hands out at a time, with results."""

    def measure(work: Callable[[], object]) -> int:
        work()  # what is made once
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            work()
        results: Any = profiler.profiler.kineto_results
        now = highest = 0
        for _, nbytes in sorted(_allocations(results.experimental_event_tree())):
            now += nbytes
            highest = max(highest, now)
        return highest

    return measure


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Have torch compute in one thread: each further one has memory of its own."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)


def _allocations(events: list[Any]) -> Iterator[tuple[int, int]]:
    for event in events:
        if hasattr(event.extra_fields, "alloc_size"):
            yield event.start_time_ns, event.extra_fields.alloc_size
        yield from _allocations(event.children)
