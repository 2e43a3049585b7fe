"""Checkpoints of several files: folders, indexes, distributed checkpoints."""

import json
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.state_dict_saver import save

from memmap import CheckpointError, MemoryReport
from memmap._reports._checkpoint_pickle import Node


def save_file(tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Write zeros of float32 as a safetensors file."""
    header, reached = {}, 0
    for name, tensor in tensors.items():
        stop = reached + tensor.nbytes
        shape = [*tensor.shape]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [reached, stop]}
        reached = stop
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(reached))


def names_of(report: MemoryReport) -> dict[str, int]:
    return {n: t.touched for s in report.storages for t in s.tensors for n in t.entry.names}


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    save_file({"a": torch.zeros(3), "b": torch.zeros(2, 2)}, tmp_path / "model-1.safetensors")
    save_file({"c": torch.zeros(5)}, tmp_path / "model-2.safetensors")
    return tmp_path


def indexed(folder: Path, weight_map: Any, name: str = "model.safetensors.index.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return path


def test_an_index_and_its_folder_give_one_report(sharded: Path) -> None:
    shards = dict.fromkeys("ab", "model-1.safetensors") | {"c": "model-2.safetensors"}
    path = indexed(sharded, shards)
    for given in (path, sharded):
        report = MemoryReport.from_file(given)
        assert names_of(report) == {"a": 12, "b": 16, "c": 20}
        assert report.totals.allocated == report.totals.separate == 48


def test_a_folder_without_an_index_names_the_files(sharded: Path) -> None:
    os.link(sharded / "model-2.safetensors", sharded / "model-3.safetensors")
    (sharded / "model-4.safetensors").symlink_to(sharded / "model-2.safetensors")
    (sharded / "config.json").write_text("{}")
    flat = torch.zeros(10)
    torch.save({"x": flat[:4], "y": flat[2:], "z": torch.zeros(2, device="meta")}, sharded / "o.pt")
    report = MemoryReport.from_file(sharded)
    names = [f"model-{number}.safetensors: c" for number in (2, 3, 4)]
    assert names_of(report) == {
        "model-1.safetensors: a": 12, "model-1.safetensors: b": 16, "o.pt: x": 16, "o.pt: y": 32,
    } | dict.fromkeys(names, 20)  # fmt: skip
    (linked,) = [t for s in report.storages for t in s.tensors if t.entry.names == names]
    assert linked.shared == 20  # links to one file are one memory
    assert report.totals.allocated == 12 + 16 + 20 + 40
    assert report.unplaced == ("o.pt: z",)


def test_storages_of_two_files_are_apart(tmp_path: Path) -> None:
    """The key of a storage and the place in a file are the same in both files."""
    for name in ("1.pt", "2.pt"):
        torch.save({"w": torch.zeros(4)}, tmp_path / name)
        save_file({"w": torch.zeros(4)}, tmp_path / f"{name}.safetensors")
    totals = MemoryReport.from_file(tmp_path).totals
    assert totals.allocated == 64 and totals.shared == 0


def test_a_single_file_in_a_folder_keeps_its_names(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(4)}, tmp_path / "model.safetensors")
    assert names_of(MemoryReport.from_file(tmp_path)) == {"w": 16}


@pytest.mark.parametrize(
    "weight_map", [None, [], {"a": 3}, {"a": "../model-1.safetensors"}, {"a": ""}, {"a": "x\0"}]
)
def test_an_index_must_name_files_of_its_folder(sharded: Path, weight_map: Any) -> None:
    with pytest.raises(CheckpointError, match="the index must have a weight_map"):
        MemoryReport.from_file(indexed(sharded, weight_map))


def test_wrong_indexes_and_folders_are_refused(sharded: Path, tmp_path: Path) -> None:
    path = indexed(sharded, {"a": "model-2.safetensors"})
    with pytest.raises(CheckpointError, match=r"model-2\.safetensors: the shard must hold 'a'"):
        MemoryReport.from_file(path)
    path.write_text("{")
    with pytest.raises(CheckpointError, match="the index must be JSON"):
        MemoryReport.from_file(path)
    indexed(sharded, {}, "second.index.json")
    with pytest.raises(CheckpointError, match=r"the folder must hold one .*, got 2 indexes"):
        MemoryReport.from_file(sharded)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="got 0 indexes and 0 such files"):
        MemoryReport.from_file(tmp_path / "empty")
    indexed(tmp_path / "empty", {"a": "gone.safetensors"})
    with pytest.raises(FileNotFoundError):
        MemoryReport.from_file(tmp_path / "empty")


@pytest.fixture
def distcp(tmp_path: Path) -> Path:
    state = {
        "model": {"w": torch.zeros(10, 10), "half": torch.zeros(3, dtype=torch.bfloat16)},
        "scalar": torch.tensor(2.0),
        "epoch": 3,
    }
    folder = tmp_path / "dcp"
    save(state, checkpoint_id=folder, no_dist=True)
    return folder


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_checkpoint_is_reported_by_its_metadata(distcp: Path) -> None:
    report = MemoryReport.from_file(distcp)
    assert names_of(report) == {"model.w": 400, "model.half": 6, "scalar": 4}
    assert report.totals.allocated == 410 and report.devices.keys() == {"file"}


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_distributed_checkpoint_is_refused(distcp: Path) -> None:
    (shard,) = distcp.glob("*.distcp")
    os.truncate(shard, 100)
    with pytest.raises(CheckpointError, match=r"distcp: a shard must hold all of its tensors"):
        MemoryReport.from_file(distcp)
    metadata = distcp / ".metadata"
    for wrong in (b"\x80\x04N.", b"\x80\x04}.", metadata.read_bytes()[:50], b""):
        metadata.write_bytes(wrong)
        with pytest.raises(CheckpointError, match=r"torch.distributed|whole"):
            MemoryReport.from_file(distcp)


PARTS: Any = ([],)


class _Made:
    """A stand-in for an object of another class with any state."""

    def __init__(self, cls: type, **state: object) -> None:
        self.reduction = cls, ("a", 0, 1)[: 3 if cls is _StorageInfo else 1], state

    def __reduce__(self) -> Any:
        return self.reduction


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({"storage_data": {_Made(MetadataIndex, fqn=PARTS): 0}}, "got a place without a name"),
        (
            {"storage_data": {_Made(MetadataIndex, fqn="a", offset=PARTS): 0}},
            "got a size that has other parts than integers",
        ),
        (
            {"storage_data": {MetadataIndex("a"): _Made(_StorageInfo, relative_path=PARTS)}},
            r"got a place in \.\.\.",
        ),
        (
            {"storage_data": {}, "state_dict_metadata": {"a": SimpleNamespace(chunks=PARTS)}},
            "size",
        ),
        (
            {
                "storage_data": {},
                "state_dict_metadata": {"a": SimpleNamespace(chunks=PARTS, size=(1,))},
            },
            "got a tensor 'a' without a name",
        ),
    ],
)
def test_parts_of_tuples_are_neither_hashed_nor_printed(
    distcp: Path, described: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in ("__hash__", "__repr__"):
        monkeypatch.setattr(Node, method, lambda node: pytest.fail("looked at"))
    (distcp / ".metadata").write_bytes(pickle.dumps(SimpleNamespace(**described)))
    with pytest.raises(CheckpointError, match=message):
        MemoryReport.from_file(distcp)
