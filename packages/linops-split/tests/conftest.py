"""Fixtures of all tests of this package."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NoAllocation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fails where an operation returns a tensor in memory that was not an argument's."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        given = {_storage(value) for value in torch.utils._pytree.tree_leaves((args, kwargs))}
        for result in torch.utils._pytree.tree_leaves(results):
            if isinstance(result, torch.Tensor) and _storage(result) not in given:
                raise AssertionError(f"{func} allocates {tuple(result.shape)}")
        return results


def _storage(value: object) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


@pytest.fixture
def no_allocation() -> type[NoAllocation]:
    return NoAllocation
