"""Helpers under their names in torch-named-linops, from ``memmap`` and ``linops_core``."""

from linops_core import inner as inner
from linops_core import is_adjoint as is_adjoint
from memmap import MemReporter as MemReporter
from memmap import ModuleMemoryMap as ModuleMemoryMap
from memmap import memory_aware_deepcopy as memory_aware_deepcopy
from memmap import memory_aware_to as memory_aware_to
from memmap import same_storage as same_storage
from memmap import tensor_memory_span as tensor_memory_span

__all__ = [
    "MemReporter",
    "ModuleMemoryMap",
    "inner",
    "is_adjoint",
    "memory_aware_deepcopy",
    "memory_aware_to",
    "same_storage",
    "tensor_memory_span",
]
