"""Simulated devices on a CPU, to check the order of work on several streams without a GPU."""

from ._machine._streams import SCHEDULES as SCHEDULES
from ._machine._streams import SimEvent as SimEvent
from ._machine._streams import SimStream as SimStream
from ._order import RaceError as RaceError
from ._world import World as World
from ._world import simulated as simulated

__all__ = [
    "SCHEDULES",
    "RaceError",
    "SimEvent",
    "SimStream",
    "World",
    "simulated",
]
