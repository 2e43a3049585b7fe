"""Shared variables, and functions that borrow memory or copy it, with explicit ownership.

The rules are those of Theano's page on memory aliasing. Managed memory belongs to shared variables
and functions; all other memory belongs to the user. Values are copied between the two, unless
``borrow=True`` allows sharing.

Builds on `modules`, `views` and `dataflow`.
"""

from .._errors import OwnershipError
from ._expressions import Expression, apply, variable
from ._function import Function, In, Out, function
from ._shared import SharedVariable, shared

__all__ = [
    "Expression",
    "Function",
    "In",
    "Out",
    "OwnershipError",
    "SharedVariable",
    "apply",
    "function",
    "shared",
    "variable",
]
