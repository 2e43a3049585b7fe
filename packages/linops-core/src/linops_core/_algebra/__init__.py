"""Operators made of operators; the import registers the rules of arithmetic."""

from . import _own_tile as _own_tile
from . import _rules as _rules
