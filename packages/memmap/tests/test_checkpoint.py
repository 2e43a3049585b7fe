"""Checkpoints are told apart by content; whatever is damaged gives the one documented error."""

import os
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


def saved(value: Any, path: Path) -> Path:
    torch.save(value, path)
    return path


def test_what_is_neither_kind_is_refused(folder: Path) -> None:
    for content in (b"", b"x", b"hello world, this is text", b"\x93NUMPY" + bytes(100)):
        path = folder / "neither"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"must be a \.pt or \.safetensors"):
            MemoryReport.from_file(path)


def test_the_format_before_torch_1_6_is_refused_by_name(folder: Path) -> None:
    path = folder / "legacy.pt"
    torch.save({"x": torch.zeros(3)}, path, _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"format of torch 1\.6 or later"):
        MemoryReport.from_file(path)


def test_a_file_that_cannot_be_read_is_an_oserror(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MemoryReport.from_file(folder / "missing.pt")
    with pytest.raises(IsADirectoryError):
        MemoryReport.from_file(os.fspath(folder))


@given(EDITS, st.floats(0, 1) | st.just(1.0))
@settings(max_examples=150)
def test_a_damaged_file_is_reported_or_refused_with_the_documented_error(
    folder: Path, edits: list[tuple[float, str, bytes]], keep: float
) -> None:
    flat = torch.zeros(20)
    layer = torch.nn.Linear(2, 2)
    good = saved({"a": flat[:12].view(3, 4), "b": [flat[::2]], "l": layer}, folder / "good.pt")
    bad = folder / "bad.pt"
    bad.write_bytes(edited(good.read_bytes(), edits, keep))
    try:
        report = MemoryReport.from_file(bad)
    except CheckpointError as error:
        assert "\n" not in str(error)
    else:
        str(report), report.to_dict(), report.to_svg()
