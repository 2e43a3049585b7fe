"""Exact hazards between the operations of a program that read and write overlapping memory.

A `Tensor` owns memory, a `TensorView` is a view of part of it, and an `Operation` reads and writes
views. `analyze_dependencies` finds the hazards between operations. `trace` records the operations
of a real PyTorch function.

Builds on `views`, and its strategies on those of `testing`.
"""

from ._analysis import analyze_dependencies
from ._array_operations import BinaryOperation, FillOperation, ReduceOperation, TransformOperation
from ._graph import Dependency, DependencyGraph, HazardKind
from ._operation import Operation, SelfHazard
from ._storages import TracedView
from ._tensors import MemoryView, Tensor, TensorView, check_memory_overlap, compute_view_footprint
from ._trace import TracedOperation, trace

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
