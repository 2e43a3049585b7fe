"""Which machine is simulated at the moment: at most one in a process."""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload

from ._operations import run
from ._world import World

_active: list[World] = []


def active_world() -> World:
    """Return the machine that is simulated.

    Raises
    ------
    RuntimeError
        Outside of :func:`simulated`.
    """
    if not _active:
        raise RuntimeError("simulated devices must be used inside `with simulated()`, got none")
    return _active[-1]


def activate(world: World) -> None:
    """Let devices be those of ``world``.

    Raises
    ------
    RuntimeError
        If there is one already.
    """
    if _active:
        raise RuntimeError("simulated: one machine must end before the next one, got one inside")
    _active.append(world)


def deactivate() -> None:
    """Let there be no devices."""
    _active.clear()


def n_devices() -> int:
    """Return how many simulated devices there are now."""
    return len(_active[-1].devices) if _active else 0


def kernel(op: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """Do what an operator does that meets a simulated device."""
    world = active_world()
    with world.entered():
        return run(world, op, args, kwargs)
