"""Optional libraries."""

from __future__ import annotations

from functools import partial

from linops_core.siblings import needed as of_package

needed = partial(of_package, package="linops-imaging")
