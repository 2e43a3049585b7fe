"""A safetensors file is reported from its header, which must be right to the last byte."""

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memmap import CheckpointError, MemoryReport
from memmap._reports._checkpoint_safetensors import _DTYPES

BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "C64": 64, "BOOL": 8, "I8": 8, "U16": 16,
    "F8_E4M3": 8, "F4": 4, "F6_E2M3": 6,
}  # fmt: skip
SHAPES = st.lists(st.integers(0, 5), max_size=3)
# Whole bytes, whatever the type.
TENSORS = st.lists(
    st.tuples(st.sampled_from(sorted(BITS)), SHAPES.map(lambda shape: [4, *shape])), max_size=5
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints") / "checkpoint.safetensors"


def written(path: Path, header: object, n_bytes: int) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(n_bytes))
    return path


def header_of(tensors: list[tuple[str, list[int]]]) -> tuple[dict[str, Any], int]:
    header, reached = {}, 0
    for index, (dtype, shape) in enumerate(tensors):
        stop = reached + BITS[dtype] * prod(shape) // 8
        header[f"t{index}"] = {"dtype": dtype, "shape": shape, "data_offsets": [reached, stop]}
        reached = stop
    return header, reached


@given(tensors=TENSORS, order=st.randoms(use_true_random=False))
def test_every_tensor_is_a_storage_of_its_own(
    path: Path, tensors: list[tuple[str, list[int]]], order: Any
) -> None:
    header, n_bytes = header_of(tensors)
    listed = [*header.items(), ("__metadata__", {"format": "pt"})]
    order.shuffle(listed)
    report = MemoryReport.from_file(written(path, dict(listed), n_bytes))
    result = {t.entry.names[0]: t for s in report.storages for t in s.tensors}
    assert len(report.storages) == len(result) == len(tensors)
    for index, (dtype, shape) in enumerate(tensors):
        tensor = result[f"t{index}"]
        assert tensor.touched == BITS[dtype] * prod(shape) // 8
        assert tensor.entry.shape == tuple(shape)
    assert report.totals.allocated == report.totals.separate == n_bytes
    assert report.totals.shared == report.totals.wasted == 0


@pytest.mark.parametrize("code", sorted(_DTYPES))
def test_every_type_of_the_format_has_its_size(code: str, path: Path) -> None:
    bits = int("".join(c for c in code.split("_")[0] if c.isdigit()) or 8)
    n_bytes = 8 * bits // 8
    header = {"x": {"dtype": code, "shape": [8], "data_offsets": [0, n_bytes]}}
    assert MemoryReport.from_file(written(path, header, n_bytes)).totals.touched == n_bytes


UNFIT = "a tensor must have a dtype of the format, a shape, and data_offsets .* need, got"


def one(**changes: object) -> dict[str, object]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{" + b"x" * 20, "header must be JSON"),
        (b"{\xff\xfe}", "header must be JSON"),
        (b'{"a":' + b"[" * 100_000, "header must be JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "header must be JSON"),
        (b'{"a":1,"a":1}', "each name once, got a name twice"),
        (b'{"a":NaN}', f"a: {UNFIT} nan"),
        (b'{"__metadata__":NaN}', "__metadata__ must map names to texts"),
        ({"__metadata__": {"epoch": 3}}, "__metadata__ must map names to texts"),
        ({"x": []}, f"x: {UNFIT} .]"),
        (one(more=1), f"x: {UNFIT} .*'more': 1"),
        (one(dtype="F33"), f"x: {UNFIT} .*'F33'"),
        (one(dtype="F33", shape=[0], data_offsets=[0, 0]), UNFIT),
        (one(dtype=["F32"]), UNFIT),
        (one(shape=[-2]), UNFIT),
        (one(shape=[True, 2]), UNFIT),
        (one(shape=[float("nan")]), f"{UNFIT} .*nan"),
        (one(shape=2), UNFIT),
        (one(data_offsets=[0, 8, 8]), UNFIT),
        (one(data_offsets=[0, 8.0]), UNFIT),
        (one(shape=[3]), UNFIT),
        (one(shape=[10**400, 10**4000]), UNFIT),
        (one(data_offsets=[8, 0]), UNFIT),
        (
            one(data_offsets=[1, 9]),
            "x: a tensor must begin where the previous one ends, at byte 0, got 1",
        ),
        ({**one(), "y": one()["x"]}, "y: a tensor must begin where .* at byte 8, got 0"),
        (one(shape=[1], data_offsets=[0, 4]), "must fill the file, 8 bytes .* got 4"),
        (one(shape=[3], data_offsets=[0, 12]), "must fill the file, 8 bytes .* got 12"),
        ({}, "must fill the file, 8 bytes after the header, got 0"),
    ],
)
def test_a_wrong_header_is_refused(header: object, message: str, path: Path) -> None:
    with pytest.raises(CheckpointError, match=message) as raised:
        MemoryReport.from_file(written(path, header, 8))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("length", [4, 1 << 40, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_refused(length: int, path: Path) -> None:
    path.write_bytes(length.to_bytes(8, "little") + b"{}"[:2])
    with pytest.raises(CheckpointError, match=f"header must fit into the file .* got {length}"):
        MemoryReport.from_file(path)


@given(
    tensors=TENSORS,
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    keep=st.floats(0, 1) | st.just(1.0),
)
@example(tensors=[], edits=[], keep=1.0)
def test_a_garbled_file_is_reported_or_refused_with_the_documented_error(
    path: Path, tensors: list[tuple[str, list[int]]], edits: list[tuple[int, int]], keep: float
) -> None:
    header, n_bytes = header_of(tensors)
    data = bytearray(written(path, header, n_bytes).read_bytes())
    for place, value in edits:
        data[place % len(data)] = value
    path.write_bytes(data[: round(len(data) * keep)])
    try:
        report = MemoryReport.from_file(path)
    except CheckpointError as error:
        assert edits or keep < 1, f"the file was whole: {error}"
    else:
        str(report), report.to_dict(), report.to_svg()
