"""Parsing a pickle into a tree, without importing or calling anything.

Python's unpickler runs the pickle, but each name it would import becomes a `Global`, and each call
of one a `Node`. Nothing else in the tree can be called, so nothing is executed.
"""

from __future__ import annotations

import pickle
import pickletools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from struct import Struct
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


def parse_pickle(file: IO[bytes]) -> object:
    """The next pickle as a tree of numbers, texts, bytes, None, tuples, `Global` and `Node`.

    Shared objects and cycles stay single objects.
    """
    return parse(InertUnpickler(file))


def parse(unpickler: InertUnpickler) -> object:
    """The tree that an unpickler makes."""
    try:
        # Python warns about unknown escapes in a string, but the user cannot change the file.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            return unpickler.load()
    except Exception as error:  # a garbled step may raise any exception
        raise CheckpointError(
            f"the pickle must be whole, got one that is cut off or garbled: {error}"
        ) from error


_unsigned = Struct("<I").unpack_from
_PUT, _LONG_PUT, _GET, _LONG_GET, _BYTE, _TEXT, _STOP = (
    step[0]
    for step in (
        pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET,
        pickle.BININT1, pickle.BINUNICODE, pickle.STOP,
    )
)  # fmt: skip
_BARE = frozenset(ord(step.code) for step in pickletools.opcodes if step.arg is None)
"""Steps that read nothing more."""


# The unpickler in Python, because the one in C allocates as many places as a pickle asks for.
class InertUnpickler(pickle._Unpickler):
    """Makes a tree of what it would otherwise import and call."""

    stack: list[Any]
    metastack: list[list[Any]]
    memo: dict[int, Any]
    pop_mark: Callable[[], list[object]]

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, encoding="latin-1")
        self._file = file
        # Methods of `pickle._Unpickler` use these.
        self.read, self.readline = file.read, file.readline
        self.stack, self.metastack = [], []
        self.append = self.stack.append

    def load(self) -> object:
        """Return the object; the steps that nearly all of a checkpoint consists of are here."""
        file, memo, stack, dispatch = self._file, self.memo, self.stack, self.dispatch
        data: Any = file.getvalue() if isinstance(file, BytesIO) else file  # a mapped file
        at = file.tell()
        while True:
            step = data[at]
            at += 1
            if step == _LONG_PUT:
                memo[_unsigned(data, at)[0]] = stack[-1]
                at += 4
            elif step == _PUT:
                memo[data[at]] = stack[-1]
                at += 1
            elif step == _LONG_GET:
                stack.append(memo[_unsigned(data, at)[0]])
                at += 4
            elif step == _GET:
                stack.append(memo[data[at]])
                at += 1
            elif step == _BYTE:
                stack.append(data[at])
                at += 1
            elif step == _TEXT:
                start = at + 4
                at = start + _unsigned(data, at)[0]
                text = data[start:at]
                if len(text) < at - start:
                    raise EOFError("a text is cut off")
                stack.append(str(text, "utf-8", "surrogatepass"))
            elif step == _STOP:
                file.seek(at)
                return stack.pop()
            elif step in _BARE:
                dispatch[step](self)
                stack = self.stack
            else:
                file.seek(at)
                dispatch[step](self)
                at, stack = file.tell(), self.stack

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
