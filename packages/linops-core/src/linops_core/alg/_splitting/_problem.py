"""What FISTA and ADMM solve: least squares with a penalty."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from .._proximals._proximal import Proximal, checked_proximal
from .._shared._checks import check_vector
from .._shared._precision import OperatorPair, in_given_precision, widened
from .._shared._progress import Iterate, Progress
from .._shared._stacked import Operators, Vectors, one_vector, stacked
from .._shared._vectors import is_moderate, unit_of


class PenalizedProblem:
    """|A x - y|^2 / 2 + g, in the unit of y if that is extreme, in single precision at least."""

    def __init__(
        self,
        owner: str,
        A: Operators,
        adjoint: Operators | None,
        y: Vectors,
        proximal: Proximal,
        x0: Tensor | None,
    ) -> None:
        A, adjoint = stacked(owner, "A", A, adjoint)
        y = one_vector(owner, "y", y, A)
        check_vector(owner, "y", y)
        self.owner, self.dtype = owner, y.dtype
        self.A = OperatorPair(owner, A, adjoint, y.dtype)
        self.y, self.x0, self.unit = widened(y), None, 1.0
        self.proximal = given = checked_proximal(owner, "proximal", proximal, y.dtype)
        unit = unit_of(owner, self.y)
        if not is_moderate(unit):
            self.y, self.unit = self.y / unit, unit
            self.proximal = lambda z, step: given(z * unit, step) / unit
        if x0 is not None:
            check_vector(owner, "x0", x0)
            self.x0 = widened(x0) / self.unit

    def solve(self, steps: Iterator[Iterate[Tensor]], progress: Progress) -> Tensor:
        """Return the last x of the steps, in the unit and the precision of y."""
        return self._result(progress.follow(steps, self._result))

    def _result(self, x: Tensor) -> Tensor:
        return in_given_precision(self.owner, x * self.unit, self.dtype)
