"""The way in: a machine with simulated devices for as long as a block lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

from linops_multigpu._devices._streams import StreamBackend, register_backend

from ._device._registration import DEVICE_TYPE, activated, register
from ._machine._machine import Machine
from ._machine._schedules import Schedule
from ._operators._dispatch import OWN, run
from ._world import World


@contextmanager
def simulated(
    n_devices: int = 4,
    *,
    memory: int | None = None,
    schedule: str = "oldest",
    seed: int = 0,
    check: bool = True,
) -> Iterator[World]:
    """Have devices ``sim:0``, ``sim:1`` and so on inside the block, simulated on the CPU.

    Tensors on them are ordinary ones with real values. Their work is done later, in one of the
    orders that the program allows, and every access to memory is checked to come after those
    that it depends on, whichever order was taken. Inside, autograd works on the calling thread.

    Parameters
    ----------
    n_devices : int
    memory : int, optional
        Bytes that each device has. Any number by default.
    schedule : str
        One of `SCHEDULES`: the order in which streams work.
    seed : int
        Of the schedule ``random``.
    check : bool
        Whether the block ends with an error if there was a race. It does by default.

    Yields
    ------
    World
        The machine, to ask and to change.

    Raises
    ------
    RaceError
        At the end, if accesses to memory happen in an order that nothing decides.
    RuntimeError
        If torch is of a version in which this does not work, if there is another accelerator in
        this process, or if a machine is simulated already.
    ValueError
        If there is no such schedule, `n_devices` is less than one, or `memory` is negative.

    Notes
    -----
    Races between threads of the host are not seen, because all threads count as one. Neither is
    what goes past the operators of torch, such as writes to the array that a tensor was made from.

    A backward pass runs on the streams that are current when it is called; on a real device each
    part of it runs on the stream of its forward. If the forward ran on streams of your own, make
    them current (:meth:`World.using`) around the call of ``backward``: otherwise a race may be
    reported that a real device does not have.

    Examples
    --------
    >>> import torch
    >>> with simulated(n_devices=2) as world:
    ...     x = torch.ones(3, device="sim:0")
    ...     y = (2 * x).to("sim:1").cpu()
    ...     world.moved
    [('sim:0', 'sim:1', 12), ('sim:1', 'cpu', 12)]
    >>> y
    tensor([2., 2., 2.])
    """
    if not isinstance(n_devices, int) or n_devices < 1:
        raise ValueError(f"simulated: n_devices must be a positive integer, got {n_devices!r}")
    if memory is not None and (not isinstance(memory, int) or memory < 0):
        raise ValueError(f"simulated: memory must be an integer from 0 or None, got {memory!r}")
    register(OWN)
    machine = Machine(n_devices, memory, Schedule(schedule, seed))
    world = World(machine)
    with activated(partial(run, machine), n_devices):
        register_backend(DEVICE_TYPE, cast(StreamBackend, world))
        with world.attached():
            yield world
            world.synchronize()
    if check:
        world.check()
