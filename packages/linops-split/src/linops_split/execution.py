"""The interface for running a table of parts, for packages with their own executors.

An executor computes the parts of a `Work` in any order and gives the results to an `Output`.
"""

from ._execution import Forward as Forward
from ._execution import Output as Output
from ._execution import RecordedByAutograd as RecordedByAutograd
from ._execution import Work as Work
from ._execution import run_in_order as run_in_order
from ._execution import sum_dtype as sum_dtype
from ._layout import Layout as Layout
from ._layout import Slices as Slices
from ._out_of_place import applied_out_of_place as applied_out_of_place
from ._training._gradient_sums import GradientSums as GradientSums
from ._training._part_copies import PartCopies as PartCopies
from ._training._recording import Backward as Backward
from ._training._recording import is_batch as is_batch
from ._training._weight_parts import WeightParts as WeightParts
from ._training._weight_parts import is_dense as is_dense
from ._training._weight_parts import memory_order as memory_order
from ._training._weights import held_by as held_by
from ._training._weights import read_by as read_by
from ._training._weights import reading as reading

__all__ = [
    "Backward",
    "Forward",
    "GradientSums",
    "Layout",
    "Output",
    "PartCopies",
    "RecordedByAutograd",
    "Slices",
    "WeightParts",
    "Work",
    "applied_out_of_place",
    "held_by",
    "is_batch",
    "is_dense",
    "memory_order",
    "read_by",
    "reading",
    "run_in_order",
    "sum_dtype",
]
