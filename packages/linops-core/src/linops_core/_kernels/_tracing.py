"""Whether calls are traced or recorded, and functions that a compiler must not trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ._recursion import advise
from ._torch_state import is_in_forward_mode

Function = TypeVar("Function", bound=Callable[..., object])
Built = TypeVar("Built")

_NOT_IN_A_GRAPH = (
    "operators are built outside of compiled graphs: build them in __init__ (they read weights "
    "when they are called), or in a function that torch._dynamo.nonstrict_trace marks"
)


def is_recorded(*tensors: Tensor) -> bool:
    """Whether autograd records operations on the tensors, so that none may be written to."""
    return torch.is_grad_enabled() and any([tensor.requires_grad for tensor in tensors])


def is_differentiated(*tensors: Tensor) -> bool:
    """Whether autograd follows operations on the tensors, in reverse or in forward mode."""
    return is_recorded(*tensors) or is_in_forward_mode()


def constant_when_compiled(function: Function) -> Function:
    """Mark a function whose result is constant: a compiler calls it and does not trace it.

    ``torch.compiler.assume_constant_result`` does the same, but it imports the compiler, which
    takes a second and changes warning filters and environment variables.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def make_in_plain_python(make: Callable[..., Built], *args: object) -> Built:
    """Return ``make(*args)``, an operator, in plain Python also while a compiler traces."""

    def make_now() -> Built:
        try:
            return make(*args)
        except RecursionError as error:
            advise(error)
            raise

    return in_plain_python(make_now, _NOT_IN_A_GRAPH)


def in_plain_python(call: Callable[[], Built], why: str) -> Built:
    """Return ``call()`` without tracing; an error gives the reason for a graph break."""
    dynamo = sys.modules.get("torch._dynamo")  # its import is slow
    if dynamo is None:
        return call()
    if is_dynamo_compiling():
        dynamo.graph_break(msg=why)
    result: Built = dynamo.disable(call)()
    return result
