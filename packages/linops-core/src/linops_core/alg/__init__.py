"""Solvers that need nothing of an operator but to apply it."""

from ._conjugate_gradients import CGStep as CGStep
from ._conjugate_gradients import conjugate_gradients as conjugate_gradients

__all__ = ["CGStep", "conjugate_gradients"]
