"""Optional libraries."""

from __future__ import annotations

from functools import partial

from linops_core.siblings import optional_module as of_package

optional_module = partial(of_package, package="linops-imaging")
