"""Hypothesis strategies for views and modules that share memory, and brute-force references.

Needs hypothesis (the extra ``testing``); ``memmap`` itself never imports it.
"""

from ._brute_force import allocated_nbytes as allocated_nbytes
from ._brute_force import content_of as content_of
from ._brute_force import sharing_of as sharing_of
from ._brute_force import touched_bytes as touched_bytes
from ._modules import Holder as Holder
from ._modules import modules as modules
from ._modules import state_of as state_of
from ._modules import tensors_of as tensors_of
from ._views import DTYPES as DTYPES
from ._views import tensor_views as tensor_views
from ._views import views as views

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
