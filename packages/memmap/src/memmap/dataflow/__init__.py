"""Exact hazards between the operations of a program that read and write overlapping memory.

A `Tensor` owns memory, a `TensorView` is a view of part of it, and an `Operation` reads and writes
views. `analyze_dependencies` finds the hazards between operations. `trace` records the operations
of a real PyTorch function.
"""

from ._analysis import analyze_dependencies as analyze_dependencies
from ._array_operations import BinaryOperation as BinaryOperation
from ._array_operations import FillOperation as FillOperation
from ._array_operations import ReduceOperation as ReduceOperation
from ._array_operations import TransformOperation as TransformOperation
from ._graph import Dependency as Dependency
from ._graph import DependencyGraph as DependencyGraph
from ._graph import HazardKind as HazardKind
from ._operation import Operation as Operation
from ._operation import SelfHazard as SelfHazard
from ._storages import TracedView as TracedView
from ._tensors import MemoryView as MemoryView
from ._tensors import Tensor as Tensor
from ._tensors import TensorView as TensorView
from ._tensors import check_memory_overlap as check_memory_overlap
from ._tensors import compute_view_footprint as compute_view_footprint
from ._trace import TracedOperation as TracedOperation
from ._trace import trace as trace

__all__ = [
    "BinaryOperation",
    "Dependency",
    "DependencyGraph",
    "FillOperation",
    "HazardKind",
    "MemoryView",
    "Operation",
    "ReduceOperation",
    "SelfHazard",
    "Tensor",
    "TensorView",
    "TracedOperation",
    "TracedView",
    "TransformOperation",
    "analyze_dependencies",
    "check_memory_overlap",
    "compute_view_footprint",
    "trace",
]
