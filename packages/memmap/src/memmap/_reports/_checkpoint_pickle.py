"""A pickle as the data it is: a tree in which nothing was imported, called or built.

A pickle is a program for a machine with a stack. This one runs all of it but the instructions
that would leave the machine: a name of something importable stays a name, and a call stays a note
of what would be called with what. There is nothing in here that could be made to execute code.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from .._errors import CheckpointError


class Global(NamedTuple):
    """The name of something that an unpickler would import.

    Attributes
    ----------
    name : str
        With its module: ``torch._utils._rebuild_tensor_v2``.
    """

    name: str


DICT, LIST, SET, PERSISTENT = (Global(name) for name in ("dict", "list", "set", "persistent"))


@dataclass(eq=False, slots=True)
class Node:
    """An object that an unpickler would make: a container, or what a call returns.

    Attributes
    ----------
    maker : object
        What would be called: a `Global`, as a rule; `DICT`, `LIST` and `SET` for containers,
        `PERSISTENT` for an object that is stored beside the pickle.
    arguments : tuple
        What it would be called with.
    state : list
        What would be handed to ``__setstate__``.
    items : list
        What would be appended or added.
    pairs : list of tuple
        Keys and values that would be set.
    """

    maker: object
    arguments: tuple[object, ...] = ()
    state: list[object] = field(default_factory=list)
    items: list[object] = field(default_factory=list)
    pairs: list[tuple[object, object]] = field(default_factory=list)


def parse_pickle(data: bytes | IO[bytes]) -> object:
    """Tree of what a pickle describes.

    Parameters
    ----------
    data : bytes or binary file
        A pickle of any protocol; what follows its end is ignored. A file is read up to there.

    Returns
    -------
    object
        Numbers, strings, bytes, None, tuples, `Global` and `Node`; objects that were shared or
        form cycles are one object here, too.

    Raises
    ------
    CheckpointError
        If the bytes are no pickle, or one with buffers out of band.

    Examples
    --------
    >>> import os, pickle
    >>> node = parse_pickle(pickle.dumps(os.path.join, protocol=0))
    >>> node.name.rpartition(".")[2]
    'join'
    """
    machine = _Machine()
    try:
        # Python warns of unknown escapes in a string: they are the file's affair.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            for opcode, argument, _ in pickletools.genops(data):
                if opcode.name == "STOP":
                    return machine.pop()
                machine.step(opcode.name, argument)
    except CheckpointError:
        raise
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise CheckpointError(
            f"the pickle must be whole, got one that breaks off or is garbled: {error}"
        ) from error
    raise CheckpointError("the pickle must be whole, got one without an end")


class _Machine:
    """Stack, marks and memo of an unpickler."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.outer: list[list[object]] = []
        self.memo: dict[int, object] = {}

    def step(self, name: str, argument: object) -> None:
        if name in _CONSTANTS:
            self.push(_CONSTANTS[name])
        elif name in _VALUES:
            self.push(argument)
        elif name in _MEMO_PUTS:
            self.memo[len(self.memo) if argument is None else _index(argument)] = self.top()
        elif name in _MEMO_GETS:
            self.push(self.memo[_index(argument)])
        elif name not in _IGNORED:
            action = _ACTIONS.get(name)
            if action is None:
                raise CheckpointError(f"the pickle must be self-contained, got {name} in it")
            action(self, argument)

    def push(self, value: object) -> None:
        self.stack.append(value)

    def top(self) -> object:
        return self.stack[-1]

    def pop(self) -> object:
        return self.stack.pop()

    def node(self) -> Node:
        """The object on top, to which something is to be added."""
        top = self.top()
        if not isinstance(top, Node):
            raise CheckpointError(
                f"the pickle must fill objects that can be filled, got {type(top).__name__}"
            )
        return top

    def mark(self) -> None:
        self.outer.append(self.stack)
        self.stack = []

    def pop_mark(self) -> list[object]:
        items = self.stack
        self.stack = self.outer.pop()
        return items

    def pop_tuple(self, size: int) -> None:
        if len(self.stack) < size:
            raise IndexError("too few values for a tuple")
        items = tuple(self.stack[-size:])
        del self.stack[-size:]
        self.push(items)

    def pop_pair(self) -> list[object]:
        second, first = self.pop(), self.pop()
        return [first, second]

    def call(self) -> None:
        maker, arguments = self.pop_pair()
        self.push(Node(maker, _as_tuple(arguments)))

    def call_with_keywords(self) -> None:
        keywords = self.pop()
        maker, arguments = self.pop_pair()
        self.push(Node(maker, (*_as_tuple(arguments), keywords)))

    def call_marked(self) -> None:
        maker, *arguments = self.pop_mark()
        self.push(Node(maker, tuple(arguments)))

    def set_state(self) -> None:
        state = self.pop()
        self.node().state.append(state)

    def add_item(self) -> None:
        item = self.pop()
        self.node().items.append(item)

    def add_items(self) -> None:
        items = self.pop_mark()
        self.node().items.extend(items)

    def add_pairs(self, flat: list[object]) -> None:
        self.node().pairs.extend(_pairs(flat))

    def name(self) -> None:
        module, name = self.pop_pair()
        self.push(Global(f"{module}.{name}"))


def _index(argument: object) -> int:
    if not isinstance(argument, int):
        raise CheckpointError(f"the pickle must number its objects, got {argument!r}")
    return argument


def _as_tuple(arguments: object) -> tuple[object, ...]:
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _pairs(flat: list[object]) -> list[tuple[object, object]]:
    if len(flat) % 2:
        raise CheckpointError(f"the pickle must have a value for each key, got {len(flat)} objects")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _global(argument: object) -> Global:
    """The name that an opcode spells as module, blank, name."""
    return Global(str(argument).replace(" ", "."))


_CONSTANTS: dict[str, object] = {
    "NONE": None,
    "NEWTRUE": True,
    "NEWFALSE": False,
    "EMPTY_TUPLE": (),
}
_VALUES = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING "
    "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE "
    "BINUNICODE8".split()
)
_MEMO_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_MEMO_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_IGNORED = frozenset({"PROTO", "FRAME"})
_ACTIONS: dict[str, Callable[[_Machine, object], object]] = {
    "MARK": lambda m, _: m.mark(),
    "POP": lambda m, _: m.pop() if m.stack else m.pop_mark(),
    "POP_MARK": lambda m, _: m.pop_mark(),
    "DUP": lambda m, _: m.push(m.top()),
    "EMPTY_LIST": lambda m, _: m.push(Node(LIST)),
    "EMPTY_DICT": lambda m, _: m.push(Node(DICT)),
    "EMPTY_SET": lambda m, _: m.push(Node(SET)),
    "LIST": lambda m, _: m.push(Node(LIST, items=m.pop_mark())),
    "FROZENSET": lambda m, _: m.push(Node(SET, items=m.pop_mark())),
    "DICT": lambda m, _: m.push(Node(DICT, pairs=_pairs(m.pop_mark()))),
    "TUPLE": lambda m, _: m.push(tuple(m.pop_mark())),
    "TUPLE1": lambda m, _: m.pop_tuple(1),
    "TUPLE2": lambda m, _: m.pop_tuple(2),
    "TUPLE3": lambda m, _: m.pop_tuple(3),
    "APPEND": lambda m, _: m.add_item(),
    "APPENDS": lambda m, _: m.add_items(),
    "ADDITEMS": lambda m, _: m.add_items(),
    "SETITEM": lambda m, _: m.add_pairs(m.pop_pair()),
    "SETITEMS": lambda m, _: m.add_pairs(m.pop_mark()),
    "GLOBAL": lambda m, argument: m.push(_global(argument)),
    "STACK_GLOBAL": lambda m, _: m.name(),
    "EXT1": lambda m, argument: m.push(Global(f"extension {argument}")),
    "EXT2": lambda m, argument: m.push(Global(f"extension {argument}")),
    "EXT4": lambda m, argument: m.push(Global(f"extension {argument}")),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "NEWOBJ_EX": lambda m, _: m.call_with_keywords(),
    "OBJ": lambda m, _: m.call_marked(),
    "INST": lambda m, argument: m.push(Node(_global(argument), tuple(m.pop_mark()))),
    "BUILD": lambda m, _: m.set_state(),
    "PERSID": lambda m, argument: m.push(Node(PERSISTENT, (argument,))),
    "BINPERSID": lambda m, _: m.push(Node(PERSISTENT, (m.pop(),))),
}
