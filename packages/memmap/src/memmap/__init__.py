"""Which bytes a tensor touches, and copies and moves that keep every view."""

from ._deepcopy import memory_aware_deepcopy as memory_aware_deepcopy
from ._errors import AliasError as AliasError
from ._errors import AliasWarning as AliasWarning
from ._errors import CastError as CastError
from ._errors import CheckpointError as CheckpointError
from ._errors import MoveError as MoveError
from ._errors import NonLeafError as NonLeafError
from ._errors import StorageError as StorageError
from ._footprint import Footprint as Footprint
from ._footprint import footprint as footprint
from ._footprint import union_nbytes as union_nbytes
from ._layout import Layout as Layout
from ._map import ModuleMemoryMap as ModuleMemoryMap
from ._map import StorageGroup as StorageGroup
from ._move import memory_aware_to as memory_aware_to
from ._overlap import has_internal_overlap as has_internal_overlap
from ._overlap import overlaps as overlaps
from ._pairs import overlapping_pairs as overlapping_pairs
from ._place import same_storage as same_storage
from ._place import view_of as view_of
from ._report import MemoryReport as MemoryReport
from ._report import MemReporter as MemReporter
from ._span import tensor_memory_span as tensor_memory_span
from ._view import View as View

__all__ = [
    "AliasError",
    "AliasWarning",
    "CastError",
    "CheckpointError",
    "Footprint",
    "Layout",
    "MemReporter",
    "MemoryReport",
    "ModuleMemoryMap",
    "MoveError",
    "NonLeafError",
    "StorageError",
    "StorageGroup",
    "View",
    "footprint",
    "has_internal_overlap",
    "memory_aware_deepcopy",
    "memory_aware_to",
    "overlapping_pairs",
    "overlaps",
    "same_storage",
    "tensor_memory_span",
    "union_nbytes",
    "view_of",
]
