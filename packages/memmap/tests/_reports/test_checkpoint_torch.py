"""A ``.pt`` file is reported as its tensors lie after loading, without loading anything."""

import io
import os
import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import CheckpointError, MemoryReport
from memmap._reports._checkpoint_pickle import Node
from memmap._reports._checkpoint_tensors import _STORAGE_DTYPES, TensorWalk
from memmap.testing import DTYPES, tensor_views


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints") / "checkpoint.pt"


def report_of(value: object, path: Path) -> MemoryReport:
    torch.save(value, path)
    return MemoryReport.from_file(path)


def names_of(report: MemoryReport) -> set[tuple[str, ...]]:
    return {tuple(t.entry.names) for s in report.storages for t in s.tensors}


def storages_of(report: MemoryReport) -> list[str]:
    storages = report.to_dict()["storages"]
    assert isinstance(storages, list)
    return sorted(map(str, storages))


@st.composite
def named_tensors(draw: st.DrawFn) -> dict[str, torch.Tensor]:
    """Views of two storages."""
    storages = [torch.zeros(64, dtype=torch.uint8).untyped_storage() for _ in range(2)]
    views = st.sampled_from(storages).flatmap(lambda s: tensor_views(s, DTYPES, bits=False))
    listed = draw(st.lists(views, min_size=1, max_size=4))
    return {f"view{index}": tensor for index, tensor in enumerate(listed)}


@given(tensors=named_tensors(), as_parameters=st.booleans())
def test_a_report_of_a_file_is_the_report_of_its_tensors(
    path: Path, tensors: dict[str, torch.Tensor], as_parameters: bool
) -> None:
    # One storage cannot be saved under two types: all its views get one.
    tensors = {name: tensor for name, tensor in tensors.items() if _first_of(tensor, tensors)}
    if as_parameters:
        tensors = {
            name: torch.nn.Parameter(tensor, requires_grad=False)
            for name, tensor in tensors.items()
        }
    expected, result = MemoryReport(tensors), report_of(tensors, path)
    assert storages_of(result) == storages_of(expected)
    assert result.devices == expected.devices


def _first_of(tensor: torch.Tensor, tensors: dict[str, torch.Tensor]) -> bool:
    address = tensor.untyped_storage().data_ptr()
    return tensor.dtype == next(
        t.dtype for t in tensors.values() if t.untyped_storage().data_ptr() == address
    )


def test_every_storage_type_of_torch_is_known() -> None:
    expected = {
        f"torch.{name}": dtype for dtype, name in torch.storage._dtype_to_storage_type_map().items()
    }
    assert _STORAGE_DTYPES == expected | {"torch.storage.UntypedStorage": torch.uint8}


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float8_e4m3fn, torch.uint64], ids=str)
def test_types_that_are_younger_than_storage_types_are_read(dtype: torch.dtype, path: Path) -> None:
    (storage,) = report_of({"x": torch.zeros(6, dtype=dtype)[1:]}, path).storages
    (tensor,) = storage.tensors
    assert f"torch.{tensor.entry.dtype}" == str(dtype)
    assert tensor.offset == dtype.itemsize and tensor.touched == 5 * dtype.itemsize


def test_state_dicts_name_their_tensors_as_they_do(path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    report = report_of(model.state_dict(), path)
    assert names_of(report) == {(name,) for name in model.state_dict()}


def test_whole_modules_name_their_tensors_by_path(path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 3, bias=False))
    model[1].weight = torch.nn.Parameter(torch.zeros(3, 3))
    assert names_of(report_of(model, path)) == {("0.weight",), ("0.bias",), ("1.weight",)}


def test_compiled_modules_are_read_too(path: Path) -> None:
    archive = path.with_name("compiled.pt")
    compiled: Any = torch.jit
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        compiled.script(torch.nn.Linear(2, 3)).save(os.fspath(archive))
    assert names_of(MemoryReport.from_file(archive)) == {("weight",), ("bias",)}


def test_a_tensor_has_all_its_names_in_nested_containers(path: Path) -> None:
    x, p = torch.zeros(3), torch.nn.Parameter(torch.zeros(2))
    p.tag = torch.zeros(5)  # type: ignore[attr-defined]  # a parameter may have attributes
    report = report_of({"model": {"a.b": x}, "list": [x, p, (x[1:],)], 3: p}, path)
    assert names_of(report) == {
        ("model['a.b']", "list[0]"),
        ("list[1]", "[3]"),
        ("list[1].arguments[3]['tag']",),
        ("list[2][0]",),
    }
    assert report.totals.shared == 12 + 8


def test_ordered_dicts_in_lists_and_with_attributes_are_searched(path: Path) -> None:
    inside = OrderedDict(a=torch.ones(1))
    empty = OrderedDict[str, torch.Tensor]()
    empty.b = torch.ones(2)  # type: ignore[attr-defined]  # as torch puts _metadata there
    result = names_of(report_of([inside, empty, OrderedDict()], path))
    assert result == {("[0]['a']",), ("[1].b",)}


def test_a_tensor_alone_is_the_root(path: Path) -> None:
    assert names_of(report_of(torch.zeros(3), path)) == {("<root>",)}


def test_optimizers_storages_and_components_of_sparse_tensors_are_found(path: Path) -> None:
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(4)
    optimizer.step()
    value = {
        "adam": optimizer.state_dict(),
        "eye": torch.eye(3).to_sparse(),
        "raw": torch.zeros(2).untyped_storage(),
    }
    names = {name for (name,) in names_of(report_of(value, path))}
    assert {"adam['state'][0]['exp_avg']", "raw", "eye.arguments[1][0]"} <= names
    assert report_of(value, path).totals.touched == 16 + 16 + 4 + 48 + 12 + 8


def test_subclasses_and_their_attributes_are_found(path: Path) -> None:
    x = torch.zeros(4).as_subclass(_Tagged)
    x.tag = torch.zeros(2)
    assert names_of(report_of([x, x], path)) == {("[0]", "[1]"), ("[0].state['tag']",)}


class _Tagged(torch.Tensor):
    tag: torch.Tensor


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_the_ranks_of_a_mesh_are_no_tensor_of_the_model(path: Path) -> None:
    """Distributed tensors are saved with their mesh, which describes processes."""
    from torch.distributed.device_mesh import DeviceMesh

    mesh = DeviceMesh.__new__(DeviceMesh)
    mesh.__dict__.update(_rank_map=torch.arange(2), _layout=None)
    report = report_of({"local": torch.zeros(3), "spec": [mesh, torch.zeros(1)]}, path)
    assert names_of(report) == {("local",), ("spec[1]",)}


def test_tensors_without_storage_are_named_and_not_counted(path: Path) -> None:
    report = report_of({"meta": torch.zeros(3, device="meta")}, path)
    assert report.unplaced == ("meta",) and report.totals.allocated == 0


class _Evil:
    def __init__(self, command: str, *payload: object) -> None:
        self.command, self.payload = command, payload

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.system, (self.command, *self.payload)


def test_a_malicious_file_executes_nothing_and_its_tensors_are_found(path: Path) -> None:
    marker = path.with_name("executed")
    evil = _Evil(f"touch {marker}", torch.zeros(5))
    report = report_of({"good": torch.zeros(2), "evil": evil}, path)
    assert names_of(report) == {("good",), ("evil.arguments[1]",)}
    assert not marker.exists()


# What follows is written by hand, as torch.save never would.


def archive(
    path: Path, pickled: bytes, records: dict[str, bytes], prefix: str = "x", compression: int = 0
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as made:
        made.writestr(f"{prefix}/data.pkl", pickled)
        for key, content in records.items():
            made.writestr(f"{prefix}/data/{key}", content)
    return path


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: object) -> object:
        return value.described if isinstance(value, _Storage) else None


class _Storage:
    def __init__(self, *described: object) -> None:
        self.described = described


class _Tensor:
    def __init__(self, *arguments: object, rebuild: Any = None) -> None:
        self.arguments = arguments
        self.rebuild = rebuild or torch._utils._rebuild_tensor_v2

    def __reduce__(self) -> Any:
        return self.rebuild, self.arguments


def pickled(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, 2).dump(value)
    return stream.getvalue()


STORAGE = ("storage", torch.FloatStorage, "0", "cpu", 4)


def with_tensor(
    path: Path, *arguments: object, storage: Any = STORAGE, rebuild: Any = None
) -> Path:
    source = _Storage(*storage) if isinstance(storage, tuple) else storage
    value = {"w": _Tensor(source, *arguments, rebuild=rebuild)}
    return archive(path, pickled(value), {"0": bytes(16)})


def test_an_archive_by_hand_is_read(path: Path) -> None:
    report = MemoryReport.from_file(with_tensor(path, 1, (3,), (1,)))
    assert report.totals.touched == 12 and report.totals.allocated == 16


def test_a_tensor_must_lie_in_its_storage(path: Path) -> None:
    for offset, sizes, strides in [(2, (3,), (1,)), (0, (2,), (4,)), (-1, (1,), (1,))]:
        with pytest.raises(CheckpointError, match="w: view: every element must lie in its storage"):
            MemoryReport.from_file(with_tensor(path, offset, sizes, strides))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "w: a tensor must have a storage, an offset and strides"),
        ((0, (3,), (True,)), "w: offset, sizes and strides must be integers"),
        ((0, (3.0,), (1,)), "w: offset, sizes and strides must be integers"),
        (("0", (3,), (1,)), "w: offset, sizes and strides must be integers"),
        ((0, (3,), (10**5000,)), "w: offset, sizes and strides must be integers"),
        ((0, [3], (1,)), "w: offset, sizes and strides must be integers"),
        ((0, (1 << 62, 2), (0, 0)), "w: a tensor must have at most 4611686018427387904 elements"),
        ((0, (-3,), (1,)), "w: View: sizes, itemsize and storage_nbytes must not be negative"),
        ((0, (3, 1), (1,)), "w: View: sizes and strides must have one entry per dimension"),
    ],
)
def test_a_tensor_must_be_described_well(
    arguments: tuple[object, ...], message: str, path: Path
) -> None:
    with pytest.raises(CheckpointError, match=message):
        MemoryReport.from_file(with_tensor(path, *arguments))


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (None, "must lie in a storage of the archive, got none"),
        (("storage",), "must lie in a storage of the archive, got none"),
        (("module", *STORAGE[1:]), "a known type, a key and a size, got '0'"),
        (("storage", torch.Tensor, *STORAGE[2:]), "a known type, a key and a size"),
        ((*STORAGE[:3], None, 4), "a known type, a key and a size"),
        ((*STORAGE[:4], True), "a known type, a key and a size"),
        ((*STORAGE[:4], -4), "a known type, a key and a size"),
        ((*STORAGE[:4], 10**5000), "a known type, a key and a size"),
        ((*STORAGE[:4], 5), "record of its size of 20 bytes, got 16"),
        ((*STORAGE[:2], "1", "cpu", 4), "record of its size of 16 bytes, got none"),
    ],
)
def test_a_storage_must_have_its_record(storage: Any, message: str, path: Path) -> None:
    with pytest.raises(CheckpointError, match=message):
        MemoryReport.from_file(with_tensor(path, 0, (3,), (1,), storage=storage))


def test_a_storage_must_have_one_size(path: Path) -> None:
    value = [_Tensor(_Storage(*STORAGE[:4], n), 0, (3,), (1,)) for n in (4, 3)]
    with pytest.raises(CheckpointError, match="storage '0' must have one size, got 16 and 12"):
        MemoryReport.from_file(archive(path, pickled(value), {"0": bytes(16)}))


def test_a_key_that_cannot_be_printed_has_a_name_all_the_same(path: Path) -> None:
    report = report_of(
        {10**5000: torch.zeros(1), (1, 2): torch.zeros(1), True: torch.zeros(1)}, path
    )
    assert names_of(report) == {("[...]",), ("[True]",)}


def test_a_type_that_torch_does_not_have_is_refused(path: Path) -> None:
    storage = ("storage", torch.storage.UntypedStorage, "0", "cpu", 16)
    for dtype in (torch.Tensor, 3):
        made = with_tensor(
            path, 0, (3,), (1,), False, {}, dtype,
            storage=storage, rebuild=torch._utils._rebuild_tensor_v3,
        )  # fmt: skip
        with pytest.raises(
            CheckpointError, match="must have a type that this version of torch has, got"
        ):
            MemoryReport.from_file(made)


def test_elements_smaller_than_a_byte_are_named_and_not_counted(path: Path) -> None:
    storage = ("storage", torch.QUInt4x2Storage, "0", "cpu", 16)
    report = MemoryReport.from_file(with_tensor(path, 0, (3,), (1,), storage=storage))
    assert report.unplaced == ("w",) and report.totals.allocated == 0


def test_a_tensor_on_another_device_is_reported_there(path: Path) -> None:
    storage = (*STORAGE[:3], "cuda:1", 4)
    report = MemoryReport.from_file(with_tensor(path, 0, (2,), (1,), storage=storage))
    assert report.devices["cuda:1"].wasted == 8


def test_objects_nested_without_end_are_refused(path: Path) -> None:
    deep = b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b"."
    with pytest.raises(CheckpointError, match="nested at most 1000 deep"):
        MemoryReport.from_file(archive(path, deep, {}))


def test_parts_of_a_tuple_that_is_called_are_not_hashed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "__hash__", lambda node: pytest.fail("hashed"))
    called = b"\x80\x02]" + pickle.TUPLE1 + b")" + pickle.REDUCE + b"."
    assert not MemoryReport.from_file(archive(path, called, {})).storages


def test_a_pickle_that_repeats_itself_exponentially_is_walked_once(path: Path) -> None:
    value: list[object] = [torch.zeros(1)]
    for _ in range(60):
        value = [value, value]
    assert len(names_of(report_of(value, path))) == 1


def test_arguments_that_are_used_by_many_calls_are_kept_and_walked_once(path: Path) -> None:
    n_arguments, n_calls = 300_000, 3_000
    many = b"\x80\x02(cos\nsystem\nq\x00(" + b"N" * n_arguments + b"tq\x01"
    shared = archive(path, many + b"h\x00h\x01R" * n_calls + b"l.", {})
    assert MemoryReport.from_file(shared).storages == ()


def test_a_key_that_is_a_page_long_is_left_out_of_the_names(path: Path) -> None:
    keys = "k" * 1000, "k" * 1001
    value = {key: {key: torch.zeros(1)} for key in keys}
    assert names_of(report_of(value, path)) == {(f"{keys[0]}['{keys[0]}']",), ("[...][...]",)}


def test_names_that_are_more_than_the_file_by_far_are_refused(path: Path) -> None:
    deep: object = [torch.zeros(1)] * 300
    for _ in range(150):
        deep = {"k" * 1000: deep}
    torch.save(deep, path)
    assert path.stat().st_size < 10_000
    with pytest.raises(CheckpointError, match="all names together must have at most 33554432"):
        MemoryReport.from_file(path)


@pytest.mark.parametrize("n_pickles", [0, 2])
def test_a_zip_must_hold_one_pickle(n_pickles: int, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("readme.txt", "no checkpoint")
        for index in range(n_pickles):
            made.writestr(f"part{index}/data.pkl", pickled({}))
    with pytest.raises(CheckpointError, match=f"one data.pkl, got {n_pickles}"):
        MemoryReport.from_file(path)


def test_compressed_records_are_refused(path: Path) -> None:
    archive(path, pickled([0] * 1000), {}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match=r"whole and uncompressed, got 'x/data\.pkl'"):
        MemoryReport.from_file(path)


def test_two_records_of_one_name_are_refused(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made, pytest.warns(UserWarning, match="Duplicate name"):
        made.writestr("x/data.pkl", pickled({}))
        made.writestr("x/data/0", b"")
        made.writestr("x/data/0", b"1")
    with pytest.raises(CheckpointError, match="name each record once"):
        MemoryReport.from_file(path)


def test_a_garbled_record_is_noticed_by_its_checksum(path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, path)
    path.write_bytes(path.read_bytes().replace(b"weight", b"weighs"))
    with pytest.raises(CheckpointError, match="got a damaged one: Bad CRC"):
        MemoryReport.from_file(path)


@given(edits=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), max_size=4))
@example(edits=[])
def test_a_garbled_description_is_reported_or_refused_with_the_documented_error(
    path: Path, edits: list[tuple[int, int]]
) -> None:
    tensor = _Tensor(_Storage(*STORAGE), 1, (3,), (1,), False, {})
    garbled = bytearray(pickled({"w": tensor, "p": [tensor, (tensor, {1: "two"})], "c": Path}))
    for place, value in edits:
        garbled[place % len(garbled)] = value
    try:
        report = MemoryReport.from_file(archive(path, bytes(garbled), {"0": bytes(16)}))
    except CheckpointError as error:
        assert edits, f"nothing was garbled: {error}"
    else:
        str(report), report.to_dict(), report.to_svg()


@given(st.recursive(st.integers() | st.text(max_size=3) | st.none(), st.lists, max_leaves=5))
def test_a_tree_without_tensors_has_none(value: object) -> None:
    walk = TensorWalk(value)
    assert walk.entries.placed == [] and walk.entries.unplaced == []


def test_a_file_without_checksums_is_read(path: Path) -> None:
    serialization = pytest.importorskip("torch.utils.serialization")
    with serialization.config.patch("save.compute_crc32", False):
        torch.save({"weight": torch.zeros(3)}, path)
    assert MemoryReport.from_file(path).totals.touched == 12


def test_several_archives_in_one_file_are_refused(path: Path, tmp_path: Path) -> None:
    torch.save(torch.zeros(3), path)
    shard = tmp_path / "__0_0.distcp"
    shard.write_bytes(path.read_bytes() * 2)
    with pytest.raises(CheckpointError, match=r"one archive, got \d+ bytes before the last one"):
        MemoryReport.from_file(shard)
