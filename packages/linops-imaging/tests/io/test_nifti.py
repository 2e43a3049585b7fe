"""Files written with nibabel, and damaged ones."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from linops_imaging.io import read_nifti

nibabel = pytest.importorskip("nibabel")
AFFINE = np.array([[0, 2, 0, 5], [1, 0, 0, -3], [0, 0, 3, 1.5], [0, 0, 0, 1]])
DTYPES = ["u1", "i1", "<i2", ">i2", "u2", "i4", "u4", "i8", "f4", ">f4", "f8", "c8", ">c16"]


def write(path: Path, values: np.ndarray[Any, Any], version: int = 1) -> Path:
    kind = {1: nibabel.Nifti1Image, 2: nibabel.Nifti2Image}[version]
    image = kind(values, AFFINE, dtype=values.dtype)
    image.header.set_data_dtype(values.dtype)
    nibabel.save(image, path)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), min_size=3, max_size=5).filter(lambda s: s[-1] > 1 or len(s) == 3),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2]),
    st.sampled_from(["a.nii", "a.nii.gz", "A.NII"]),
)
def test_what_is_written_is_read(
    tmp_path: Path, shape: list[int], dtype: str, version: int, name: str
) -> None:
    values = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    image, affine = read_nifti(write(tmp_path / name, values, version))
    native = values.astype(values.dtype.newbyteorder("="))
    assert torch.equal(image, torch.from_numpy(native)) and image.is_contiguous()
    assert image.dtype == torch.from_numpy(native).dtype
    assert affine.dtype == torch.float64 and np.array_equal(affine.numpy(), AFFINE)


def test_values_are_scaled(tmp_path: Path) -> None:
    values = np.arange(8, dtype="i2").reshape(2, 2, 2)
    image = nibabel.Nifti1Image(values, AFFINE)
    image.header.set_slope_inter(0.5, -1)
    (tmp_path / "a.nii").write_bytes(image.to_bytes())
    raw = bytearray((tmp_path / "a.nii").read_bytes())
    raw[112:120] = np.array([0.5, -1], "<f4").tobytes()  # scl_slope, scl_inter
    raw[352:] = values.tobytes(order="F")
    (tmp_path / "a.nii").write_bytes(raw)
    found, _ = read_nifti(tmp_path / "a.nii")
    assert found.dtype == torch.float64
    assert torch.equal(found, torch.from_numpy(values) * 0.5 - 1)


def header(**changes: tuple[int, bytes]) -> bytes:
    """Return a file of 2 x 2 x 2 with other bytes at some places of its header."""
    values = np.ones((2, 2, 2), "f4")
    raw = bytearray(nibabel.Nifti1Image(values, AFFINE).to_bytes())
    for place, new in changes.values():
        raw[place : place + len(new)] = new
    return bytes(raw)


HUGE = (42, np.array([30000, 30000, 30000], "<i2").tobytes())
BAD = {
    "another name": ("a.img", header(), "a.img must be named .nii or .nii.gz"),
    "something else": ("a.nii", b"what is this", "a.nii must be a NIfTI file, got"),
    "empty": ("a.nii", b"", "must be a NIfTI file, got"),
    "not compressed": ("a.nii.gz", header(), "must be a NIfTI file, got"),
    "cut": ("a.nii", header()[:-4], r"must have 384 bytes for shape \(2, 2, 2\) .*, got a file of"),
    "cut in the header": ("a.nii", header()[:300], "must be a NIfTI file, got"),
    "cut and compressed": ("a.nii.gz", gzip.compress(header()[:-4]), "must be a NIfTI file, got"),
    "huge": ("a.nii", header(dim=HUGE), "must have 108000000000352 bytes"),
    "huge, compressed": ("a.nii.gz", gzip.compress(header(dim=HUGE)), "must have 108000000000352"),
    "colours": (
        "a.nii",
        header(kind=(70, b"\x80\0\x18\0")),
        "must hold integers, or real or complex numbers of at most double precision, got",
    ),
    "unknown type": ("a.nii", header(kind=(70, b"\x77\7")), "must be a NIfTI file, got"),
    "no affine": (
        "a.nii",
        header(row=(280, np.array([np.nan], "<f4").tobytes())),
        "affine map of a.nii must be finite",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "match"), BAD.values(), ids=BAD)
def test_bad_files(tmp_path: Path, name: str, content: bytes, match: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"read_nifti: .*{match}"):
        read_nifti(tmp_path / name)


def test_a_pickle_in_an_extension_is_not_loaded(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.ones((2, 2, 2), "f4"), AFFINE)
    payload = b"cbuiltins\nexec\n(S'raise SystemExit'\ntR."
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("pypickle", payload))
    (tmp_path / "a.nii").write_bytes(image.to_bytes())
    assert payload in (tmp_path / "a.nii").read_bytes()
    assert read_nifti(tmp_path / "a.nii")[0].sum() == 8


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 383), st.integers(0, 255)), max_size=4),
    st.integers(0, 384),
    st.booleans(),
)
@example([(40, 0)], 384, False)  # no dimensions
@example([(40, 8)], 384, False)  # eight of them
@example([(43, 255)], 384, False)  # a negative one
def test_a_damaged_file_is_refused_or_read(
    tmp_path: Path, edits: list[tuple[int, int]], keep: int, is_compressed: bool
) -> None:
    garbled = bytearray(header())
    for place, value in edits:
        garbled[place] = value
    whole = bytes(garbled[:keep])
    path = tmp_path / ("a.nii.gz" if is_compressed else "a.nii")
    path.write_bytes(gzip.compress(whole) if is_compressed else whole)
    try:
        image, affine = read_nifti(path)
        assert image.numel() <= 1032 * 384 and affine.shape == (4, 4)
    except ValueError as error:
        assert str(error).startswith("read_nifti: ") and "\n" not in str(error)


def test_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_nifti(tmp_path / "no.nii")
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(ImportError, match=r"nibabel must be .* 'linops-imaging\[nifti\]'"):
        read_nifti(tmp_path / "no.nii")
