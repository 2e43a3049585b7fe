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
    native = {"uint16": "i4", "uint32": "i8"}.get(values.dtype.name, values.dtype.newbyteorder("="))
    expected = torch.from_numpy(values.astype(native))
    assert torch.equal(image, expected) and image.is_contiguous() and image.dtype == expected.dtype
    assert affine.dtype == torch.float64 and np.array_equal(affine.numpy(), AFFINE)


def changed(path: Path, image: Any, **places: tuple[int, bytes]) -> Path:
    """Write an image with other bytes at some places of its header."""
    raw = bytearray(image.to_bytes())
    for place, new in places.values():
        raw[place : place + len(new)] = new
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c8"])
def test_values_are_scaled(tmp_path: Path, dtype: str) -> None:
    values = np.arange(8).reshape(2, 2, 2) * (3 - 2j if dtype == "c8" else 3)
    values = values.astype(dtype)
    slope = float(np.float32(0.1))  # not exact in single precision
    scale = (112, np.array([slope, -1], "<f4").tobytes())  # scl_slope, scl_inter
    image = nibabel.Nifti1Image(values, AFFINE)
    result, _ = read_nifti(changed(tmp_path / "a.nii", image, scale=scale))
    expected = torch.from_numpy(values.real.astype(float) * slope - 1).double()
    if dtype == "c8":  # nifti1.h scales both parts
        expected = torch.complex(
            expected, torch.from_numpy(values.imag.astype(float) * slope - 1).double()
        )
    assert result.dtype == expected.dtype and torch.equal(result, expected)


def test_integers_that_torch_cannot_hold(tmp_path: Path) -> None:
    values = np.full((2, 2, 2), 2**63 - 1, "u8")
    image, _ = read_nifti(write(tmp_path / "a.nii", values))
    assert image.dtype == torch.int64 and (image == 2**63 - 1).all()
    with pytest.raises(
        ValueError, match=r"read_nifti: a.nii must hold integers below 2\*\*63, got"
    ):
        read_nifti(write(tmp_path / "a.nii", values + np.uint64(1)))


def test_equal_maps_to_different_spaces_are_one_map(tmp_path: Path) -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    affine = np.eye(4)
    affine[:3] = np.column_stack([turn * [2, 1, 5], [-90, 126, -72]])
    image = nibabel.Nifti1Image(np.ones((200, 9, 7), "f4"), None)
    image.set_qform(affine, 1)  # a quaternion in single precision
    image.set_sform(affine, 2)
    nibabel.save(image, tmp_path / "a.nii")
    assert read_nifti(tmp_path / "a.nii", return_codes=True)[2] == {"sform": 2, "qform": 1}
    affine[0, 0] += 1e-3  # a fifth of a voxel at the end of the first axis
    image.set_sform(affine, 2)
    nibabel.save(image, tmp_path / "a.nii")
    with pytest.warns(UserWarning, match="lead to different spaces"):
        read_nifti(tmp_path / "a.nii")


@pytest.mark.parametrize(("unit", "factor"), [(0, 1), (1, 1000), (2, 1), (3, 1e-3)])
def test_the_affine_map_is_in_millimetres(tmp_path: Path, unit: int, factor: float) -> None:
    image = nibabel.Nifti1Image(np.ones((2, 2, 2), "f4"), AFFINE)
    path = changed(tmp_path / "a.nii", image, unit=(123, bytes([unit | 8])))  # 8: seconds
    expected = AFFINE * [[factor], [factor], [factor], [1]]
    np.testing.assert_allclose(read_nifti(path)[1].numpy(), expected, rtol=1e-15)


def test_the_map_that_is_asked_for_is_returned(tmp_path: Path) -> None:
    scanner, template = np.diag([2.0, 2, 5, 1]), np.diag([3.0, 3, 3, 1])
    volume = np.ones((2, 2, 2), "f4")

    def codes_of(qform: int, sform: int) -> Path:
        image = nibabel.Nifti1Image(volume, None)
        image.set_qform(scanner, qform)
        image.set_sform(template, sform)
        nibabel.save(image, tmp_path / "a.nii")
        return tmp_path / "a.nii"

    path = codes_of(1, 4)
    for form, expected in (("qform", scanner), ("sform", template)):
        _, affine, codes = read_nifti(path, form=form, return_codes=True)  # type: ignore[call-overload]
        assert np.array_equal(affine.numpy(), expected) and codes == {"sform": 4, "qform": 1}
    with pytest.warns(UserWarning, match=r"a.nii lead to different spaces .*4.*1.*this is the sf"):
        assert np.array_equal(read_nifti(path)[1].numpy(), template)
    assert np.array_equal(read_nifti(codes_of(1, 1))[1].numpy(), template)
    assert np.array_equal(read_nifti(codes_of(1, 0))[1].numpy(), scanner)
    with pytest.raises(
        ValueError, match=r"a.nii must have the sform that was asked for, got code 0"
    ):
        read_nifti(path, form="sform")
    with pytest.raises(ValueError, match="form must be 'sform', 'qform' or None, got 'scanner'"):
        read_nifti(path, form="scanner")  # type: ignore[call-overload]
    path = codes_of(0, 0)
    with pytest.warns(UserWarning, match="a.nii has neither an sform nor a qform; .* is a guess"):
        _, affine, codes = read_nifti(path, return_codes=True)
    assert affine.diagonal().tolist() == [-2, 2, 5, 1] and codes == {"sform": 0, "qform": 0}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("packed", ["", ".gz", ".bz2"])
def test_pairs_and_compressed_files(tmp_path: Path, version: int, packed: str) -> None:
    volume = np.arange(24, dtype="i2").reshape(4, 3, 2)
    for kind, saved, names in (
        (f"Nifti{version}Pair", "a.img", ("a.img", "a.hdr")),
        (f"Nifti{version}Image", "b.nii", ("b.nii",)),
    ):
        nibabel.save(getattr(nibabel, kind)(volume, AFFINE), tmp_path / (saved + packed))
        for name in names:
            image, affine = read_nifti(tmp_path / (name + packed))
            assert np.array_equal(image.numpy(), volume) and np.array_equal(affine.numpy(), AFFINE)


def test_damaged_pairs_are_refused(tmp_path: Path) -> None:
    volume = np.arange(24, dtype="i2").reshape(4, 3, 2)
    nibabel.save(nibabel.Nifti1Pair(volume, AFFINE), tmp_path / "a.img")
    (tmp_path / "a.img").write_bytes((tmp_path / "a.img").read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"read_nifti: a.img must have 48 bytes .* a file of 46"):
        read_nifti(tmp_path / "a.hdr")
    (tmp_path / "a.img").unlink()
    with pytest.raises(ValueError, match=r"read_nifti: a.hdr must be a NIfTI file, got: .*a.img"):
        read_nifti(tmp_path / "a.hdr")
    nibabel.save(nibabel.AnalyzeImage(volume, np.eye(4)), tmp_path / "b.img")
    with pytest.raises(ValueError, match=r"read_nifti: b.img must be a NIfTI file, got"):
        read_nifti(tmp_path / "b.img")


def header(**changes: tuple[int, bytes]) -> bytes:
    """Return a file of 2 x 2 x 2 with other bytes at some places of its header."""
    values = np.ones((2, 2, 2), "f4")
    raw = bytearray(nibabel.Nifti1Image(values, AFFINE).to_bytes())
    for place, new in changes.values():
        raw[place : place + len(new)] = new
    return bytes(raw)


HUGE = (42, np.array([30000, 30000, 30000], "<i2").tobytes())
BAD = {
    "another name": ("a.mgz", header(), "a.mgz must be named .nii, .hdr or .img"),
    "something else": ("a.nii", b"what is this", "a.nii must be a NIfTI file, got"),
    "empty": ("a.nii", b"", "must be a NIfTI file, got"),
    "not compressed": ("a.nii.gz", header(), "must be a NIfTI file, got"),
    "cut": ("a.nii", header()[:-4], r"must have 384 bytes for shape \(2, 2, 2\) .*, got a file of"),
    "cut in the header": ("a.nii", header()[:300], "must be a NIfTI file, got"),
    "cut and compressed": ("a.nii.gz", gzip.compress(header()[:-4]), "32 bytes of values .* ends"),
    "huge": ("a.nii", header(dim=HUGE), "must have 108000000000352 bytes"),
    "huge, compressed": ("a.nii.gz", gzip.compress(header(dim=HUGE)), "must have 108000000000352"),
    "colours": (
        "a.nii",
        header(kind=(70, b"\x80\0\x18\0")),
        "must hold integers, or real or complex numbers of at most double precision, got",
    ),
    "unknown type": ("a.nii", header(kind=(70, b"\x77\7")), "must be a NIfTI file, got"),
    "unit": ("a.nii", header(unit=(123, b"\5")), r"unit of space of a.nii must be .*, got 5"),
    "no affine": (
        "a.nii",
        header(row=(280, np.array([np.nan], "<f4").tobytes())),
        "affine map of a.nii must be finite",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "match"), BAD.values(), ids=BAD)
def test_bad_files_are_refused(tmp_path: Path, name: str, content: bytes, match: str) -> None:
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
@pytest.mark.filterwarnings("ignore:read_nifti")  # the codes of the maps may change
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


def test_bad_arguments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_nifti(tmp_path / "no.nii")
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(ImportError, match=r"nibabel must be .* 'linops-imaging\[nifti\]'"):
        read_nifti(tmp_path / "no.nii")
