"""Operators that check an input once, and know the next one by its shape."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from nameddim import NamedShape

from .._kernels._tracing import may_be_remembered
from ._linop import NamedLinop


class RememberingLinop(NamedLinop):
    """An operator that remembers the shape of the last input that it checked.

    It is for those whose sizes do not change unseen. What changes them forgets the shape.
    """

    def __init__(self, shape: NamedShape, name: str | None = None) -> None:
        super().__init__(shape, name)
        self._admitted: torch.Size | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return A x; see :meth:`NamedLinop.forward`."""
        # `_passes`, written out: a composition of many feels each call.
        if is_dynamo_compiling() or type(x) is not Tensor or x.shape != self._passed:
            return super().forward(x)
        y = self.fn(self, x)
        if self._passed is None:  # `fn` read a weight whose shape has changed
            self._check_output(y)
        return y

    def _admits(self, x: Tensor) -> bool:
        return not is_dynamo_compiling() and type(x) is Tensor and x.shape == self._admitted

    def _admit(self, x: Tensor) -> None:
        self._check_input(x)
        if may_be_remembered(x.shape):
            vars(self)["_admitted"] = x.shape
