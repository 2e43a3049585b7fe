"""What the packages of this repository need of memmap, and users do not.

memmap depends on none of them, so functions that all of them need are here.
"""

from ._bytes_text import bytes_text as bytes_text
from ._components import components as components
from ._flags import check_flags as check_flags
from ._lazy import LAZY_MODULES as LAZY_MODULES
from ._lazy import loaded_when_used as loaded_when_used
from ._written_aside import written_aside as written_aside
