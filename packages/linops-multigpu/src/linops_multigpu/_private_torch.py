"""The private names of torch that this package needs; a test fails if torch changes one."""

from __future__ import annotations

from torch._guards import active_fake_mode as active_fake_mode

from linops_split.siblings import FakeTensor as FakeTensor
