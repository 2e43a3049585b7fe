"""Simulated devices on a CPU: to prove that work on several streams is in order, without a GPU."""

from ._checker import RaceError as RaceError
from ._cost import Interval as Interval
from ._queue import SimEvent as SimEvent
from ._queue import SimStream as SimStream
from ._schedules import SCHEDULES as SCHEDULES
from ._simulated import simulated as simulated
from ._world import World as World

__all__ = [
    "SCHEDULES",
    "Interval",
    "RaceError",
    "SimEvent",
    "SimStream",
    "World",
    "simulated",
]
