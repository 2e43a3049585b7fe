"""What the package needs of torch's private names."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from linops_distributed._private_torch import assert_later, outside_of_modes


def test_assertions_are_checked() -> None:
    assert_later(torch.tensor(True), "all is well")
    with pytest.raises(RuntimeError, match="not all is well"):
        assert_later(torch.tensor(False), "not all is well")


def test_modes_are_left() -> None:
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode(), outside_of_modes():  # type: ignore[no-untyped-call]
        torch.ones(2)
    assert not seen
