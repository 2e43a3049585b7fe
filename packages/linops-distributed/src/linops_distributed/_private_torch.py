"""The private names of torch that this package needs; a test fails if torch changes one."""

from torch import _assert_async as assert_later
from torch.utils._python_dispatch import _disable_current_modes as outside_of_modes

__all__ = ["assert_later", "outside_of_modes"]
