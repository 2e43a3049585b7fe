"""Fixtures of all tests of this package."""

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class NoAllocation(TorchDispatchMode):
    """Fails where an operation returns a tensor in memory that was not an argument's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        given = {_storage(value) for value in tree_leaves((args, kwargs))}
        for result in tree_leaves(results):
            if isinstance(result, torch.Tensor) and _storage(result) not in given:
                raise AssertionError(f"{func} allocates {tuple(result.shape)}")
        return results


def _storage(value: object) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


class Peak(TorchDispatchMode):
    """Counts the bytes of all storages that operations have made and that are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive: dict[int, int] = {}
        self.highest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_storage(value) for value in tree_leaves((args, kwargs))}
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, torch.Tensor) and _storage(result) not in given:
                storage = result.untyped_storage()
                self.alive[storage._cdata] = storage.nbytes()
                weakref.finalize(storage, self.alive.pop, storage._cdata, None)
        self.highest = max(self.highest, sum(self.alive.values()))
        return results


@pytest.fixture
def peak() -> Callable[[Callable[[], object]], int]:
    """Return the function that tells how many bytes some work needs at a time."""

    def measure(work: Callable[[], object]) -> int:
        mode = Peak()
        with mode:
            work()
        return mode.highest

    return measure


@pytest.fixture(scope="session")
def no_allocation() -> type[NoAllocation]:
    return NoAllocation
