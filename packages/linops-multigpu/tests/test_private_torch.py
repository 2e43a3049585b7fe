"""What the package needs of torch's private names."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from linops_multigpu._private_torch import FakeTensor, active_fake_mode


def test_fake_modes_are_seen() -> None:
    assert active_fake_mode() is None
    with FakeTensorMode() as mode:
        assert active_fake_mode() is mode and isinstance(torch.ones(2), FakeTensor)
