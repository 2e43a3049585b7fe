"""A pickle becomes a tree; it executes and imports nothing, however it was made."""

import collections
import copyreg
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import CheckpointError
from memmap._reports._checkpoint_pickle import DICT, LIST, SET, Global, InertUnpickler, Node

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
KEYS = st.integers() | st.text(max_size=3) | st.tuples(st.integers(), st.text(max_size=2))
PLAIN = st.recursive(
    ATOMS,
    lambda part: (
        st.lists(part, max_size=4)
        | st.lists(part, max_size=4).map(tuple)
        | st.dictionaries(KEYS, part, max_size=3)
        | st.sets(st.integers(), max_size=3)
        | st.frozensets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)
PROTOCOLS = st.integers(0, pickle.HIGHEST_PROTOCOL)


def parsed(data: bytes) -> object:
    return InertUnpickler(io.BytesIO(data)).parsed()


class Call:
    """An object whose pickle calls something, in the way that it is told to."""

    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


class Slots:
    """Made by ``__new__`` with arguments, and filled through its state."""

    def __new__(cls, *args: object, **kwargs: object) -> "Slots":
        return super().__new__(cls)

    def __getnewargs_ex__(self) -> tuple[tuple[int], dict[str, int]]:
        return (7,), {"key": 8}


def plain(tree: object) -> object:
    """What the pickle of plain data described."""
    if isinstance(tree, tuple):
        return tuple(map(plain, tree))
    if not isinstance(tree, Node):
        return tree
    if tree.maker == DICT:
        return {plain(key): plain(value) for key, value in tree.pairs}
    items = [plain(item) for item in tree.items]
    if tree.maker == LIST:
        return items
    if tree.maker == SET:
        return set(items)
    assert isinstance(tree.maker, Global)
    name = tree.maker.name.rpartition(".")[2]
    arguments = [plain(argument) for argument in tree.arguments]
    if name in ("set", "frozenset"):  # protocols before 4 call them with a list
        (listed,) = arguments
        assert isinstance(listed, list)
        return set(listed)
    if name == "encode":  # protocols before 3 have no bytes
        text, codec = arguments
        assert isinstance(text, str) and isinstance(codec, str)
        return text.encode(codec)
    assert name == "bytes" and not arguments
    return b""


@given(PLAIN, PROTOCOLS)
@example({"a": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)]}, 0)
def test_plain_data_come_out_as_they_went_in(value: object, protocol: int) -> None:
    assert plain(parsed(pickle.dumps(value, protocol))) == value


@given(PROTOCOLS)
def test_objects_that_are_shared_or_contain_themselves_stay_one(protocol: int) -> None:
    inner: list[object] = [1]
    inner.append(inner)
    tree = parsed(pickle.dumps([inner, inner], protocol))
    assert isinstance(tree, Node)
    first, second = tree.items
    assert isinstance(first, Node)
    assert first is second and first.items[1] is first


@given(PROTOCOLS)
def test_a_call_stays_a_note(protocol: int) -> None:
    made = Call(collections.OrderedDict, (), {"state": 1}, iter([2]), iter([("k", 3)]))
    node = parsed(pickle.dumps(made, protocol))
    assert isinstance(node, Node)
    assert node.maker == Global("collections.OrderedDict")
    (state,) = node.state
    assert plain(state) == {"state": 1}
    assert (node.items, node.pairs) == ([2], [("k", 3)])


def test_new_objects_keep_their_arguments() -> None:
    node = parsed(pickle.dumps(Slots(7, key=8), 4))
    assert isinstance(node, Node) and isinstance(node.maker, Global)
    assert node.maker.name.endswith(".Slots")
    number, keywords = node.arguments
    assert (number, plain(keywords)) == (7, {"key": 8})


# A program for the unpickler that writes a file, in each way that pickles have to call something.
WAYS = {
    "reduce": b"cbuiltins\nexec\n(V{code}\ntR.",
    "inst": b"(V{code}\nibuiltins\nexec\n.",
    "obj": b"(cbuiltins\nexec\nV{code}\no.",
    "newobj": b"\x80\x02cbuiltins\nexec\n(V{code}\nt\x81.",
    "newobj_ex": b"\x80\x04cbuiltins\nexec\n(V{code}\nt}\x92.",
    "stack_global": b"\x80\x04Vbuiltins\nVexec\n\x93(V{code}\ntR.",
    "build": b"cbuiltins\nexec\n(V{code}\ntRV{code}\nb.",
    "list": b"(cbuiltins\nexec\n(V{code}\ntRl.",
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_executed(way: str, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = f"open({str(marker)!r}, 'w')"
    program = WAYS[way].replace(b"{code}", code.encode())
    assert isinstance(parsed(program), Node)
    assert not marker.exists()


@pytest.mark.parametrize("way", ["reduce", "inst", "obj", "stack_global"])
def test_the_programs_of_these_tests_do_execute_in_an_unpickler(way: str, tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    code = f"open({str(marker)!r}, 'w').close()"
    pickle.loads(WAYS[way].replace(b"{code}", code.encode()))
    assert marker.exists()


def test_nothing_is_imported() -> None:
    sys.modules.pop("this", None)
    assert parsed(b"cthis\nd\n.") == Global("this.d")
    assert parsed(b"\x80\x02\x82\x07.") == Global("extension 7")
    assert "this" not in sys.modules


def test_an_extension_that_the_process_has_registered_stays_a_name() -> None:
    copyreg.add_extension("os", "getcwd", 240)
    try:
        program = b"\x80\x02\x82\xf0)R."
        assert pickle.loads(program) == os.getcwd()  # and is in the cache of the unpickler now
        node = parsed(program)
    finally:
        copyreg.remove_extension("os", "getcwd", 240)
    assert isinstance(node, Node) and node.maker == Global("extension 240")


@pytest.mark.parametrize(
    "key",
    [b"\x85" * 200_000, b"2\x86" * 100],
    ids=["nested without end", "of 2 ** 100 parts"],
)
def test_keys_that_no_dictionary_could_hash_are_read(key: bytes) -> None:
    node = parsed(b"\x80\x02}N" + key + b"Ns.")
    assert isinstance(node, Node) and len(node.pairs) == 1


def test_a_number_of_an_object_is_not_a_size_to_allocate() -> None:
    assert parsed(b"\x80\x02Nr\xff\xff\xff\xff.") is None


def test_an_unknown_escape_in_a_string_gives_no_warning() -> None:
    assert parsed(b"S'\\q'\n.") == "\\q"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "must be whole"),
        (b"N", "must be whole"),
        (b".", "must be whole"),
        (b"\xff.", "must be whole"),
        (b"\x80\x02\x85.", "must be whole"),
        (b"h\x05.", "must be whole"),
        (b"e.", "must be whole"),
        (b"r\xff\xff\xff\xff.", "must be whole"),
        (b"](NNNd.", "must be whole"),
        (b"NNa.", "must be whole.*NoneType"),
        (b"\x80\x05\x97.", "must be whole.* out-of-band"),
        (b"Np-1\n" + b"g" + b"9" * 5000 + b"\n.", "must be whole"),
    ],
)
def test_a_broken_pickle_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        parsed(data)


@given(PLAIN, PROTOCOLS, st.data())
def test_a_garbled_pickle_gives_a_tree_or_the_documented_error(
    value: object, protocol: int, data: st.DataObject
) -> None:
    garbled = bytearray(pickle.dumps(value, protocol))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(garbled) - 1))
        garbled[at] = data.draw(st.integers(0, 255))
    try:
        parsed(bytes(garbled))
    except CheckpointError:
        pass
