"""Laws of linear operators, for tests: dot tests, and a test class to inherit.

Strategies for random operators with their matrices are in `linops_core.testing.strategies`, which
needs hypothesis (the extra ``testing``).
"""

from .._dottest import AdjointError as AdjointError
from .._dottest import dottest as dottest
from .._dottest import inner as inner
from .._dottest import is_adjoint as is_adjoint
from ._laws._base import BaseNamedLinopTests as BaseNamedLinopTests

__all__ = ["AdjointError", "BaseNamedLinopTests", "dottest", "inner", "is_adjoint"]
