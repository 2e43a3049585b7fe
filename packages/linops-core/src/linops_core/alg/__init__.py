"""Solvers that need nothing of an operator but to apply it."""

from ._conjugate_gradients import conjugate_gradients as conjugate_gradients
from ._lsmr import lsmr as lsmr
from ._lsqr import lsqr as lsqr
from ._step import Record as Record
from ._step import Step as Step
from ._step import StopReason as StopReason

__all__ = ["Record", "Step", "StopReason", "conjugate_gradients", "lsmr", "lsqr"]
