"""Shared variables, and functions that borrow memory or copy it, with explicit ownership.

The rules are those of Theano's page on memory aliasing. Managed memory belongs to shared variables
and functions; all other memory belongs to the user. Values are copied between the two, unless
``borrow=True`` allows sharing.
"""

from ._expressions import Expression as Expression
from ._expressions import apply as apply
from ._expressions import variable as variable
from ._function import Function as Function
from ._function import In as In
from ._function import Out as Out
from ._function import function as function
from ._memory import OwnershipError as OwnershipError
from ._shared import SharedVariable as SharedVariable
from ._shared import shared as shared

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
