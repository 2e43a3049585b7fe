"""The table of the methods of a NUFFT, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from linops_core import NamedLinop

from ._finufft import ByFinufft
from ._gridded import ByInterpolation, ByTable
from ._method import Method, NufftRequest
from ._toeplitz import Phases

METHODS: Mapping[str, Method] = {
    method.name: method for method in (ByTable(), ByInterpolation(), ByFinufft())
}
"""All methods. A further one, by another library say, is one more line."""


def made(name: str, request: NufftRequest) -> tuple[Method, NamedLinop]:
    """Return a method and its operator; of "auto", the first in the order that can run here."""
    methods: Sequence[Method] = [METHODS[name]] if name != "auto" else _in_order(request)
    tried = (
        (method, method.make(request._replace(is_named_by_user=name != "auto")))
        for method in methods
    )
    return next((method, operand) for method, operand in tried if operand is not None)


def adjoint_for_kernels(request: NufftRequest) -> Callable[[Phases], Tensor]:
    """Return the adjoint of the first method that computes kernels here."""
    tried = (method.adjoint(request) for method in _in_order(request))
    return next(adjoint for adjoint in tried if adjoint is not None)


def _in_order(request: NufftRequest) -> list[Method]:
    methods = [m for m in METHODS.values() if not (request.gridding and m.chooses_grid)]
    return sorted(methods, key=lambda method: method.rank(request))
