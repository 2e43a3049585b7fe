"""Hypothesis strategies for views and modules that share memory, and brute-force references.

Needs hypothesis (the extra ``testing``); ``memmap`` itself never imports it.

Builds on `views`.
"""

from ._brute_force import allocated_nbytes, content_of, sharing_of, touched_bytes
from ._modules import Holder, modules, state_of, tensors_of
from ._views import DTYPES, tensor_views, views

__all__ = [
    "DTYPES",
    "Holder",
    "allocated_nbytes",
    "content_of",
    "modules",
    "sharing_of",
    "state_of",
    "tensor_views",
    "tensors_of",
    "touched_bytes",
    "views",
]
