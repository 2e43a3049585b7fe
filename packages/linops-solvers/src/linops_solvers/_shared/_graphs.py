"""Solvers in compiled graphs and vmap, where no value is known and none may end the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from torch.compiler import is_compiling, is_dynamo_compiling

from linops_core.siblings import in_plain_python, is_in_vmap

Result = TypeVar("Result")


def solved_in_steps(
    owner: str,
    reading: Mapping[str, object],
    solve: Callable[[], Result],
    solve_in_graph: Callable[[], Result],
) -> Result:
    """Return ``solve()``, or ``solve_in_graph()`` in a graph or vmap, if the options allow it.

    Parameters
    ----------
    reading : mapping of str to object
        Options that read values of tensors; they cannot be given in a graph.

    Raises
    ------
    RuntimeError
        If one is given in an export. ``torch.compile`` leaves the graph instead, and calls
        ``solve``; with ``fullgraph=True`` it raises an error of its own with this message.
    """
    given = [name for name, value in reading.items() if value not in (None, 0)]
    if not given and (is_compiling() or is_in_vmap()):
        return solve_in_graph()
    *first, last = reading
    rule = (
        f"{owner}: in a compiled graph the number of steps is fixed: {', '.join(first)} and {last} "
        f"must be 0, False or None, got {', '.join(given)}"
    )
    if is_compiling() and not is_dynamo_compiling():
        raise RuntimeError(rule)
    return in_plain_python(solve, rule)
