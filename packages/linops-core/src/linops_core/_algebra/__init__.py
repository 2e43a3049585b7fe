"""Operators made of operators, and what they simplify to; the import registers the rules.

- Chains, sums, wrappers, normal operators and real forms; block matrices have a folder.
- Operators that the rules remove or collect: identities, zeros, numbers.
- What compositions share: fitted names, supports, threads, slices of chains.
"""

from . import _add as _add
from . import _chain as _chain
from . import _normal as _normal
from . import _own_tile as _own_tile
from . import _scalar as _scalar
from . import _shifted as _shifted
from . import _wrapper as _wrapper
