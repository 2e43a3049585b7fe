"""The private names of torch that this package needs; a test fails if torch changes one."""

from __future__ import annotations

import torch
from torch._guards import active_fake_mode as active_fake_mode

from linops_split.siblings import FakeTensor as FakeTensor


def is_transformed() -> bool:
    """Whether a transform of torch.func is active; it follows only weights that are sent alone."""
    return torch._C._are_functorch_transforms_active()
