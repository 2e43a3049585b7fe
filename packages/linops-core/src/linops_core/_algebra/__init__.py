"""Operators made of operators; importing it registers the rules by which they are combined."""

from . import _rules as _rules
