"""Which bytes tensors touch; copies and moves of modules that keep shared memory shared."""

from typing import TYPE_CHECKING

from ._lazy import loaded_when_used

if TYPE_CHECKING:
    from ._checkpoints._compact_checkpoint import compact_checkpoint as compact_checkpoint
    from ._checkpoints._diff import ReportDiff as ReportDiff
    from ._checkpoints._diff import diff_reports as diff_reports
    from ._copies._deepcopy import memory_aware_deepcopy as memory_aware_deepcopy
    from ._copies._module_map import ModuleMemoryMap as ModuleMemoryMap
    from ._copies._module_map import StorageGroup as StorageGroup
    from ._copies._move import memory_aware_to as memory_aware_to
    from ._errors import AliasError as AliasError
    from ._errors import AliasWarning as AliasWarning
    from ._errors import CastError as CastError
    from ._errors import CheckpointError as CheckpointError
    from ._errors import MoveError as MoveError
    from ._errors import NonLeafError as NonLeafError
    from ._errors import StorageError as StorageError
    from ._reports._html import html_table as html_table
    from ._reports._named_pairs import overlapping_pairs as overlapping_pairs
    from ._reports._report import MemoryReport as MemoryReport
    from ._reports._report import MemReporter as MemReporter
    from ._views._address import same_storage as same_storage
    from ._views._address import view_of as view_of
    from ._views._footprint import Footprint as Footprint
    from ._views._footprint import footprint as footprint
    from ._views._footprint import tensor_memory_span as tensor_memory_span
    from ._views._footprint import union_nbytes as union_nbytes
    from ._views._layout import Layout as Layout
    from ._views._overlap import has_internal_overlap as has_internal_overlap
    from ._views._overlap import overlaps as overlaps
    from ._views._view import View as View
else:
    _HOMES = {
        "._checkpoints._compact_checkpoint": "compact_checkpoint",
        "._checkpoints._diff": "ReportDiff diff_reports",
        "._copies._deepcopy": "memory_aware_deepcopy",
        "._copies._module_map": "ModuleMemoryMap StorageGroup",
        "._copies._move": "memory_aware_to",
        "._errors": "AliasError AliasWarning CastError CheckpointError MoveError NonLeafError "
        "StorageError",
        "._reports._html": "html_table",
        "._reports._named_pairs": "overlapping_pairs",
        "._reports._report": "MemoryReport MemReporter",
        "._views._address": "same_storage view_of",
        "._views._footprint": "Footprint footprint tensor_memory_span union_nbytes",
        "._views._layout": "Layout",
        "._views._overlap": "has_internal_overlap overlaps",
        "._views._view": "View",
    }

    # Overlap and footprint need a fourth of the modules, so each name is imported when it is used.
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
    __all__ = sorted(" ".join(_HOMES.values()).split())


__version__ = "0.1.0"
