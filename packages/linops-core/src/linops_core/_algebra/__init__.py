"""Operators made of operators, and what they simplify to; the import registers the rules.

- Chains, sums, wrappers, normal operators and real forms; block matrices have a folder.
- Operators that the rules remove or collect: identities, zeros, numbers.
- What compositions share: fitted names, supports, threads, slices of chains.
"""

from . import _own_tile as _own_tile
from . import _rules as _rules
