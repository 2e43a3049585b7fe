"""Which machine is simulated at the moment: at most one in a process."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload

from ._machine import Machine
from ._operations import run

_active: list[Machine] = []


def active_machine() -> Machine:
    """Return the machine that is simulated.

    Raises
    ------
    RuntimeError
        Outside of :func:`simulated`.
    """
    if not _active:
        raise RuntimeError("simulated devices must be used inside `with simulated()`, got none")
    return _active[-1]


def activate(machine: Machine) -> None:
    """Let devices be those of ``machine``.

    Raises
    ------
    RuntimeError
        If there is one already.
    """
    if _active:
        raise RuntimeError("simulated: one machine must end before the next one, got one inside")
    _active.append(machine)


def deactivate() -> None:
    """Let there be no devices."""
    _active.clear()


def n_devices() -> int:
    """Return how many simulated devices there are now."""
    return len(_active[-1].devices) if _active else 0


def kernel(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Do what an operator does that meets a simulated device."""
    machine = active_machine()
    with machine.entered():
        return run(machine, op, args, kwargs)
