"""Checkpoints are told apart by content; whatever is damaged gives the one documented error."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memmap import CheckpointError, MemoryReport

EDITS = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from("xid"), st.binary(max_size=6)),
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[float, str, bytes]], keep: float) -> bytes:
    """Bytes overwritten, inserted and deleted, and the end cut off."""
    changed = bytearray(data)
    for place, kind, new in edits:
        at = int(place * len(changed))
        past = at + len(new) * (kind != "i")
        changed[at:past] = b"" if kind == "d" else new
    return bytes(changed[: round(keep * len(changed))])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


def saved(value: Any, path: Path, has_checksums: bool) -> Path:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(has_checksums)
    try:
        torch.save(value, path)
    finally:
        torch.serialization.set_crc32_options(before)
    return path


def test_what_is_neither_kind_is_refused(folder: Path) -> None:
    for content in (b"", b"x", b"hello world, this is text", b"\x93NUMPY" + bytes(100)):
        path = folder / "neither"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"must be a \.pt or \.safetensors"):
            MemoryReport.from_file(path)


def test_a_file_that_cannot_be_read_is_an_oserror(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MemoryReport.from_file(folder / "missing.pt")


@pytest.mark.parametrize("has_checksums", [True, False])
@given(edits=EDITS, keep=st.floats(0, 1) | st.just(1.0))
@settings(max_examples=100)
def test_a_damaged_file_is_reported_or_refused_with_the_documented_error(
    folder: Path, has_checksums: bool, edits: list[tuple[float, str, bytes]], keep: float
) -> None:
    flat = torch.zeros(20)
    layer = torch.nn.Linear(2, 2)
    value = {"a": flat[:12].view(3, 4), "b": [flat[::2]], "l": layer}
    good = saved(value, folder / "good.pt", has_checksums)
    bad = folder / "bad.pt"
    bad.write_bytes(edited(good.read_bytes(), edits, keep))
    try:
        report = MemoryReport.from_file(bad)
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        str(report), report.to_dict(), report.to_svg()
