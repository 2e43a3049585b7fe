"""What the package needs of torch's private names."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_multigpu._private_torch import FakeTensor, active_fake_mode, is_transformed


def test_fake_modes_are_seen() -> None:
    assert active_fake_mode() is None
    with FakeTensorMode() as mode:
        assert active_fake_mode() is mode and isinstance(torch.ones(2), FakeTensor)


def test_transforms_are_seen() -> None:
    seen = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(is_transformed())
        return x

    function(torch.ones(2))
    torch.func.vmap(function)(torch.ones(2))
    assert seen == [False, True]
