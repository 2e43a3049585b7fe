"""Parsing a pickle so that integers know their place in it, and replacing them there."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Iterable
from io import BytesIO

from .._reports._checkpoint_pickle import InertUnpickler

_INTEGERS = frozenset(
    ord(step.code)
    for step in pickletools.opcodes
    if step.name in ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
)
_FRAME, _STOP = pickle.FRAME[0], pickle.STOP[0]


class PlacedInt(int):
    """An integer, and the bytes of the pickle that push it."""

    start: int
    stop: int


class PlacingUnpickler(InertUnpickler):
    """Parses a pickle in memory without executing it; every integer is a `PlacedInt`."""

    def __init__(self, pickled: bytes) -> None:
        super().__init__(BytesIO(pickled))
        self._pickled = pickled
        self._frames: dict[int, int] = {}

    def load(self) -> object:
        file = self._file
        while True:
            start = file.tell()
            step = file.read(1)[0]
            if step == _STOP:
                return self.stack.pop()
            self.dispatch[step](self)
            if step == _FRAME:
                self._frames[start] = file.tell()
            elif step in _INTEGERS and type(self.stack[-1]) is int:
                placed = self.stack[-1] = PlacedInt(self.stack[-1])
                placed.start, placed.stop = start, file.tell()

    def replaced(self, values: Iterable[tuple[PlacedInt, int]]) -> bytes:
        """The pickle with other integers instead of some of its own, given by their places."""
        steps = {start: (stop, b"") for start, stop in self._frames.items()}  # of other lengths now
        steps |= {old.start: (old.stop, _pushing(new)) for old, new in values}
        parts, reached = [], 0
        for start, (stop, step) in sorted(steps.items()):
            parts += [self._pickled[reached:start], step]
            reached = stop
        return b"".join([*parts, self._pickled[reached:]])


def _pushing(value: int) -> bytes:
    """The step that pushes an integer that is not negative."""
    if value < 1 << 31:
        return pickle.BININT + value.to_bytes(4, "little")
    data = value.to_bytes(value.bit_length() // 8 + 1, "little")
    return pickle.LONG1 + len(data).to_bytes(1, "little") + data
