"""Parsing a pickle into a tree, without importing or calling anything.

Python's unpickler runs the pickle, but each name it would import becomes a `Global`, and each call
of one a `Node`. Nothing else in the tree can be called, so nothing is executed.
"""

from __future__ import annotations

import pickle
import pickletools
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any, ClassVar, NamedTuple, TypeVar

from .._errors import CheckpointError

T = TypeVar("T")


class Global(NamedTuple):
    """The name, with its module, of an object that an unpickler would import."""

    name: str

    def __call__(self, *arguments: object) -> Node:
        return Node(self, arguments)


DICT, LIST, SET, PERSISTENT = (Global(name) for name in ("dict", "list", "set", "persistent"))


@dataclass(eq=False, slots=True)
class Node:
    """An object that an unpickler would make: the call that makes it, and its contents.

    `PERSISTENT` stands for an object stored beside the pickle. Keys are never hashed, because a
    key may be a tuple with 2**100 parts. Most objects have no contents, and get no list for them.
    """

    maker: object
    arguments: tuple[object, ...] = ()
    state: Sequence[object] = ()
    items: Sequence[object] = ()
    pairs: Sequence[tuple[object, object]] = ()

    def __setstate__(self, state: object) -> None:
        self.state = _with(self.state, state)

    def __setitem__(self, key: object, value: object) -> None:
        self.pairs = _with(self.pairs, (key, value))

    def append(self, item: object) -> None:
        self.items = _with(self.items, item)

    add = append


def _with(values: Sequence[T], value: T) -> list[T]:
    """Append a value to a list and return it; make a new list instead of an empty tuple."""
    made = values if isinstance(values, list) else [*values]
    made.append(value)
    return made


# The unpickler in Python, because the one in C allocates as many places as a pickle asks for.
class InertUnpickler(pickle._Unpickler):
    """Makes a tree of what it would otherwise import and call.

    The tree has numbers, texts, bytes, None, tuples, `Global` and `Node`. Shared objects and cycles
    stay single objects.
    """

    stack: list[Any]
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[object]]

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="latin-1")

    def parsed(self) -> object:
        """The tree of the next pickle in the file."""
        try:
            # Python warns about unknown escapes in a string, but the user cannot change the file.
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                return self.load()
        except Exception as error:  # a garbled step may raise any exception
            raise CheckpointError(
                f"the pickle must be whole, got one that is cut off or garbled: {error}"
            ) from error

    def find_class(self, module: str, name: str) -> Global:
        return Global(f"{module}.{name}")

    def get_extension(self, code: int) -> None:
        self.stack.append(Global(f"extension {code}"))

    def persistent_load(self, described: object) -> Node:
        return Node(PERSISTENT, (described,))

    def mark_to_container(self, maker: Global) -> None:
        items = self.pop_mark()
        if maker == DICT:
            pairs = list(zip(items[::2], items[1::2], strict=True))
            self.stack.append(Node(DICT, pairs=pairs))
        else:
            self.stack.append(Node(maker, items=items))

    def call(self) -> None:
        arguments, maker = self.stack.pop(), self.stack.pop()
        if not isinstance(arguments, tuple):
            raise TypeError("arguments must be a tuple")
        self.stack.append(Node(maker, arguments))  # no copy, because tuples may be shared often

    def call_with_keywords(self) -> None:
        keywords, arguments, maker = (self.stack.pop() for _ in range(3))
        self.stack.append(Node(maker, (*arguments, keywords)))

    dispatch: ClassVar[dict[int, Any]] = pickle._Unpickler.dispatch | {
        pickle.FRAME[0]: lambda self: self.read(8),  # frames only say how far to read ahead
        pickle.EMPTY_DICT[0]: lambda self: self.stack.append(Node(DICT)),
        pickle.EMPTY_LIST[0]: lambda self: self.stack.append(Node(LIST)),
        pickle.EMPTY_SET[0]: lambda self: self.stack.append(Node(SET)),
        pickle.DICT[0]: lambda self: self.mark_to_container(DICT),
        pickle.LIST[0]: lambda self: self.mark_to_container(LIST),
        pickle.FROZENSET[0]: lambda self: self.mark_to_container(SET),
        pickle.REDUCE[0]: call,
        pickle.NEWOBJ[0]: call,
        pickle.NEWOBJ_EX[0]: call_with_keywords,
    }


_PLACED = [
    ord(step.code)
    for step in pickletools.opcodes
    if step.name in ("FRAME", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
]


class PlacedInt(int):
    """An integer, and the bytes of the pickle that push it."""

    start: int
    stop: int


class PlacingUnpickler(InertUnpickler):
    """Parses a pickle so that every integer is a `PlacedInt`, which can be replaced there."""

    def __init__(self, pickled: bytes) -> None:
        self._pickled, self._file = pickled, BytesIO(pickled)
        self._frames: dict[int, int] = {}
        super().__init__(self._file)

    def place(self, step: Callable[[InertUnpickler], None]) -> None:
        """Make a step, and note where it is."""
        start = self._file.tell() - 1
        step(self)
        if self._pickled[start] == pickle.FRAME[0]:
            self._frames[start] = self._file.tell()
        elif type(self.stack[-1]) is int:  # one of the steps also pushes booleans
            placed = self.stack[-1] = PlacedInt(self.stack[-1])
            placed.start, placed.stop = start, self._file.tell()

    def replaced(self, values: Iterable[tuple[PlacedInt, int]]) -> bytes:
        """The pickle with other integers, not negative, instead of some of its own."""
        steps = {start: (stop, b"") for start, stop in self._frames.items()}  # of other lengths now
        steps |= {old.start: (old.stop, pickle.dumps(int(new), 2)[2:-1]) for old, new in values}
        parts, reached = [], 0
        for start, (stop, step) in sorted(steps.items()):
            parts += [self._pickled[reached:start], step]
            reached = stop
        return b"".join([*parts, self._pickled[reached:]])

    dispatch: ClassVar[dict[int, Any]] = InertUnpickler.dispatch | {
        code: lambda self, step=InertUnpickler.dispatch[code]: self.place(step) for code in _PLACED
    }
