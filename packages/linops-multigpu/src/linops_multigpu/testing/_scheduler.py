"""The simulated machine at work: one task of one stream after the other."""

from __future__ import annotations

import torch

from ._queue import Marker, SimStream, Task
from ._registration import outside_of_modes
from ._schedules import Schedule


class Scheduler:
    """Lets streams get on with what they were given, in the order of a schedule.

    Parameters
    ----------
    schedule : Schedule
    """

    def __init__(self, schedule: Schedule) -> None:
        self.streams: list[SimStream] = []
        self._schedule = schedule

    def give(self, stream: SimStream, task: Task) -> None:
        """Let ``stream`` do something when it gets to it."""
        stream.tasks.append(task)
        n_steps = self._schedule.n_steps()
        while n_steps is None or n_steps > 0:
            if not self._step():
                return
            n_steps = None if n_steps is None else n_steps - 1

    def run_until(self, marker: Marker) -> None:
        """Let the streams work until ``marker`` is reached. The host does not learn of it.

        Raises
        ------
        RuntimeError
            If that is never.
        """
        while not marker.reached:
            if not self._step():
                raise RuntimeError("simulated: some stream must be able to go on, got none")

    def finish(self, stream: SimStream) -> None:
        """Let ``stream`` do all that it was given. The host does not learn of it."""
        marker = Marker({})
        stream.tasks.append(Task(reaches=marker))
        self.run_until(marker)

    def _step(self) -> bool:
        """Do one task, if there is one to do."""
        ready = [number for number, stream in enumerate(self.streams) if stream.can_go_on()]
        if not ready:
            return False
        # In inference mode every tensor may be written to, and autograd hears nothing of it.
        with outside_of_modes(), torch.inference_mode():
            self.streams[self._schedule.pick(ready)].go_on()
        return True
