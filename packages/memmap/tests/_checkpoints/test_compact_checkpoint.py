"""A compacted file has all keys and values, the same sharing, and no byte that nothing touches."""

import os
import zipfile
from collections import OrderedDict
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import CheckpointError, MemoryReport, compact_checkpoint, overlaps
from memmap._reports import _archive
from memmap.testing import views

UINT4: torch.dtype = vars(torch)["uint4"]  # not in the stubs
DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.float32, 8: torch.float64}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compact")


def compacted(value: Any, folder: Path, **options: Any) -> Any:
    large, small = folder / "large.pt", folder / "small.pt"
    torch.save(value, large, **options)
    compact_checkpoint(large, small, overwrite=True)
    assert not [*folder.glob(".writing-*")]
    return torch.load(small, weights_only=False)


@st.composite
def strided(draw: st.DrawFn) -> list[torch.Tensor]:
    """Views of at most two storages of one type each, with gaps, overlaps, any strides."""
    tensors = []
    for flat in (torch.arange(64.0), torch.arange(64, dtype=torch.float64)):
        for view in draw(st.lists(views(), max_size=3)):
            size = flat.itemsize
            offset, strides = view.offset // size, [abs(stride) // size for stride in view.strides]
            reach = offset + sum(
                (n - 1) * step for n, step in zip(view.sizes, strides, strict=True) if n
            )
            if reach < 64:
                tensors.append(flat.as_strided(view.sizes, strides, offset))
    return tensors


@pytest.mark.parametrize("protocol", [2, 4])
@given(tensors=strided())
@example(tensors=[torch.zeros(3)[:0]])
@example(tensors=[torch.arange(64.0).view(8, 8)[:, 2], torch.arange(64.0).view(8, 8)[:, 5:7]])
def test_all_values_and_the_sharing_stay(
    folder: Path, protocol: int, tensors: list[torch.Tensor]
) -> None:
    made = compacted(tensors, folder, pickle_protocol=protocol)
    assert len(made) == len(tensors)
    for old, new in zip(tensors, made, strict=True):
        assert torch.equal(old, new) and old.dtype == new.dtype
    for (a, b), (c, d) in zip(combinations(tensors, 2), combinations(made, 2), strict=True):
        assert overlaps(a, b) == overlaps(c, d)
    before, after = (
        MemoryReport.from_file(folder / name).totals for name in ("large.pt", "small.pt")
    )
    assert (after.touched, after.shared) == (before.touched, before.shared)
    assert after.allocated <= before.allocated


def test_rows_columns_and_the_ends_of_a_storage_are_packed(folder: Path) -> None:
    flat = torch.arange(10_000.0).view(100, 100)
    cases = [
        [flat[3]],
        [flat[:, 7]],
        [flat[0, :5], flat[99, 90:]],
        [flat[2:5, 10:20], flat[4, 9:12]],
    ]
    for tensors in cases:
        made = compacted(tensors, folder)
        assert all(torch.equal(a, b) for a, b in zip(tensors, made, strict=True))
        totals = MemoryReport.from_file(folder / "small.pt").totals
        assert totals.allocated < totals.touched + 200  # parts are aligned to 64 bytes


class Kept(torch.nn.Module):
    def __init__(self, flat: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(flat[4:8])
        self.tied = self.weight
        self.register_buffer("complex", flat.to(torch.complex64)[8:12].conj())
        self.options = {"epoch": 300, "large": 1 << 70, "negative": -5, "flag": True}


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_objects_of_all_kinds_stay(folder: Path) -> None:
    flat = torch.arange(1000.0)
    value: OrderedDict[str, Any] = OrderedDict(
        module=Kept(flat),
        sparse=torch.sparse_coo_tensor(
            torch.tensor([[0, 2]]), flat[20:22], (3,), check_invariants=True
        ),
        storage=torch.arange(4.0).untyped_storage(),
        scalar=flat[999],
        none=[None, (), "text", b"bytes", {1, 2}],
        meta=torch.zeros(3, device="meta"),
        empty=flat[:0],
    )
    made = compacted(value, folder)
    module = made["module"]
    assert torch.equal(module.weight, flat[4:8]) and module.weight is module.tied
    assert torch.equal(module.complex, value["module"].complex) and module.complex.is_conj()
    assert module.options == value["module"].options
    assert torch.equal(made["sparse"].to_dense(), value["sparse"].to_dense())
    assert [*made["storage"]] == [*value["storage"]] and made["scalar"] == 999
    assert made["none"] == value["none"] and made["meta"].is_meta and made["empty"].shape == (0,)
    assert [*made] == [*value]
    assert MemoryReport.from_file(folder / "small.pt").totals.allocated < 500


class HalfBytes:
    """Numbers of four bits in the storage of another tensor, as torch would save them."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat

    def __reduce__(self) -> Any:
        place: tuple[object, ...] = (self.flat._typed_storage(), 90, (4,), (1,), False)
        return vars(torch._utils)["_rebuild_tensor_v3"], (*place, OrderedDict[Any, Any](), UINT4)


def test_numbers_of_few_bits_are_kept(folder: Path) -> None:
    flat = torch.arange(1000, dtype=torch.uint8)
    first, half = compacted([flat[3:5], HalfBytes(flat)], folder)
    assert first.tolist() == [3, 4] and half.dtype == UINT4 and half.shape == (4,)
    assert half.view(torch.uint8).tolist() == [90, 91, 92, 93]
    assert MemoryReport.from_file(folder / "small.pt").totals.allocated < 100


class Packed(HalfBytes):
    """Numbers that share bytes."""

    def __reduce__(self) -> Any:
        function, arguments = super().__reduce__()
        return function, (*arguments[:-1], torch.quint4x2)


def test_a_storage_with_elements_that_share_a_byte_stays_whole(folder: Path) -> None:
    """The places of such elements are not known."""
    flat = torch.arange(1000, dtype=torch.uint8)
    torch.save([flat[3:5], Packed(flat)], folder / "large.pt")
    compact_checkpoint(folder / "large.pt", folder / "small.pt", overwrite=True)
    report = MemoryReport.from_file(folder / "small.pt")
    assert report.totals.allocated == 1000 and len(report.unplaced) == 1


def test_the_file_can_be_mapped_and_loaded_as_weights(folder: Path) -> None:
    flat = torch.arange(10_000.0)
    compacted({"row": flat[64:80], "rest": torch.ones(3)}, folder)
    for mapped in (False, True):
        made = torch.load(folder / "small.pt", weights_only=True, mmap=mapped)
        assert torch.equal(made["row"], flat[64:80]) and made["row"].data_ptr() % 64 == 0
    with zipfile.ZipFile(folder / "small.pt") as archive:
        assert archive.testzip() is None


def test_large_records_are_written_aligned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the header of 64-bit zip archives, and in several portions."""
    monkeypatch.setattr(_archive, "_LARGE", 100)
    monkeypatch.setattr(_archive, "PORTION", 64)
    value = {"full": torch.arange(100.0), "row": torch.arange(10_000.0)[:50]}
    made = compacted(value, folder)
    assert all(torch.equal(made[name], value[name]) for name in value)
    mapped = torch.load(folder / "small.pt", mmap=True)
    assert mapped["full"].data_ptr() % 64 == 0


def test_a_safetensors_file_is_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    header = b'{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    source.write_bytes(len(header).to_bytes(8, "little") + header + b"abc")
    compact_checkpoint(source, target)
    assert target.read_bytes() == source.read_bytes()


def test_a_file_that_would_not_be_smaller_is_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "a.pt", tmp_path / "b.pt"
    tight = {"x": torch.arange(10.0), "y": torch.arange(3)}
    # Four bytes less, but the new archive takes more for its many records.
    loose = {"x": torch.arange(16.0)[:15], **{f"y{i}": torch.zeros(1) for i in range(9)}}
    for value in (tight, loose):
        torch.save(value, source)
        compact_checkpoint(source, target, overwrite=True)
        assert target.read_bytes() == source.read_bytes()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_tensors_of_a_mesh_keep_their_values(folder: Path) -> None:
    """A report leaves them out, but they may lie in a storage that gets smaller."""
    from torch.distributed.device_mesh import DeviceMesh

    ranks = torch.arange(1000)
    mesh = DeviceMesh.__new__(DeviceMesh)
    mesh.__dict__.update(_rank_map=ranks[990:992], _layout=None)
    made = compacted([mesh, ranks[5:7]], folder)
    assert made[0].__dict__["_rank_map"].tolist() == [990, 991] and made[1].tolist() == [5, 6]


def test_a_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path, other = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(torch.arange(1000.0)[5:7], path)
    other.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="the file exists, and overwrite is not set"):
        compact_checkpoint(path, other)
    assert other.read_bytes() == b"precious"
    compact_checkpoint(path, path, overwrite=True)
    assert torch.load(path).tolist() == [5, 6] and path.stat().st_size < 2500


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a.pt", tmp_path / "link.pt"
    torch.save(torch.arange(1000.0)[5:7], path)
    path.chmod(0o600)
    link.symlink_to(path)
    compact_checkpoint(link, link, overwrite=True)
    assert link.is_symlink() and path.stat().st_size < 2500
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_does_not_matter(tmp_path: Path) -> None:
    path, target = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(torch.arange(1000.0)[5:7], path)
    (tmp_path / "b.pt.partial").write_bytes(b"half of a fi")
    (tmp_path / ".writing-b.pt").mkdir()
    compact_checkpoint(path, target)
    assert torch.load(target).tolist() == [5, 6]


def test_after_an_error_there_is_no_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(torch.arange(1000.0)[5:7], path)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memmap._checkpoints._compact_checkpoint.write_record", fail)
    with pytest.raises(KeyboardInterrupt):
        compact_checkpoint(path, target)
    assert os.listdir(tmp_path) == ["a.pt"]


def test_old_files_and_others_are_refused(tmp_path: Path) -> None:
    old, other = tmp_path / "old.pt", tmp_path / "other"
    torch.save(torch.ones(3), old, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"must be of torch 1\.6 or later, got an older one"):
        compact_checkpoint(old, tmp_path / "new.pt")
    other.write_bytes(b"hello")
    with pytest.raises(CheckpointError, match=r"must be a \.pt or \.safetensors checkpoint"):
        compact_checkpoint(other, tmp_path / "new.pt")
    assert sorted(os.listdir(tmp_path)) == ["old.pt", "other"]


class Executed:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("executed",))


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save([Executed(), torch.arange(1000.0)[3:5]], "a.pt")
    compact_checkpoint("a.pt", "b.pt")
    assert sorted(os.listdir()) == ["a.pt", "b.pt"]
    torch.load("b.pt", weights_only=False)
    assert "executed" in os.listdir()  # the call is still in the new file


def test_an_integer_that_is_an_offset_and_a_size_is_refused(tmp_path: Path) -> None:
    """No pickler writes this: the size of the tensor is its offset, from the memo."""
    path = tmp_path / "a.pt"
    torch.save(torch.arange(1000.0)[200:400], path)
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    offset, size = b"K\xc8", b"K\xc8\x85"
    assert records["a/data.pkl"].count(offset + size) == 1
    put, get = b"r\x00\x00\x00\x7f", b"j\x00\x00\x00\x7f"
    records["a/data.pkl"] = records["a/data.pkl"].replace(
        offset + size, offset + put + get + b"\x85"
    )
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in records.items():
            archive.writestr(key, data)
    assert torch.load(path).shape == (200,)
    with pytest.raises(CheckpointError, match="must belong to one tensor, got one that is used"):
        compact_checkpoint(path, tmp_path / "b.pt")


def test_an_error_names_the_file_that_cannot_be_written(folder: Path) -> None:
    torch.save({"a": torch.ones(1)}, folder / "whole.pt")
    with pytest.raises(FileNotFoundError, match=r"none/small.pt'$"):
        compact_checkpoint(folder / "whole.pt", folder / "none" / "small.pt")
