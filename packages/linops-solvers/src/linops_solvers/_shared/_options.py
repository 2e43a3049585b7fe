"""Options that all solvers have: to show their steps, and to continue from a file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import TypedDict, TypeVar

from ._reports import Callback

Solver = TypeVar("Solver", bound=Callable[..., object])


class Watching(TypedDict, total=False):
    """Options of all solvers, which show their steps."""

    progress: bool
    tqdm_kwargs: Mapping[str, object] | None
    callback: Callback | None


class Checkpointed(Watching, total=False):
    """Options of solvers that also continue from a file."""

    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int


DEFAULTS = Checkpointed(
    progress=False, tqdm_kwargs=None, callback=None, checkpoint=None, checkpoint_every=10
)


def with_options(options: type) -> Callable[[Solver], Solver]:
    """Let ``help`` and editors show the options that a solver takes as ``**watching``."""

    def shown(solver: Solver) -> Solver:
        signature = inspect.signature(solver)
        parameters = [*signature.parameters.values()][:-1]
        for name, kind in options.__annotations__.items():
            kind, default = kind.__forward_arg__, DEFAULTS[name]  # type: ignore[literal-required]
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
                )
            )
        vars(solver)["__signature__"] = signature.replace(parameters=parameters)
        return solver

    return shown


def reading_options(watching: Checkpointed) -> dict[str, object]:
    """Return the options that need values of tensors, so that a graph cannot have them."""
    return {name: watching.get(name) for name in [*DEFAULTS][:-1]}
