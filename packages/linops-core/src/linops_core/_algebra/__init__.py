"""Operators made of operators; the import registers the rules of arithmetic."""

from . import _rules as _rules
