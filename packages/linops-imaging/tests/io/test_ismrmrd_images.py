"""Images that are written, read back; their place."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_imaging.io import (
    IsmrmrdImages,
    IsmrmrdScan,
    read_ismrmrd,
    read_ismrmrd_images,
    write_ismrmrd,
    write_ismrmrd_images,
)

h5py = pytest.importorskip("h5py")
DTYPES = (torch.int16, torch.int32, torch.float32, torch.float64, torch.complex64, torch.complex128)


def values(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    numbers = torch.randint(0, 99, shape, generator=torch.Generator().manual_seed(0))
    return (numbers * (1 - 2j) if dtype.is_complex else numbers).to(dtype)


def place(seed: int = 0) -> Tensor:
    """Return an affine map with perpendicular axes of different steps."""
    generator = torch.Generator().manual_seed(seed)
    axes = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=generator)).Q
    affine = torch.eye(4, dtype=torch.float64)
    affine[:3, :3] = axes * torch.tensor([1.5, 2.0, 5.0])
    affine[:3, 3] = torch.tensor([10.0, -20.0, 30.0])
    return affine


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=5),
    st.sampled_from([*DTYPES, torch.uint16, torch.uint32]),
    st.integers(0, 9),
)
def test_images_are_written_and_read(
    tmp_path: Path, shape: list[int], dtype: torch.dtype, seed: int
) -> None:
    (tmp_path / "a.h5").unlink(missing_ok=True)
    data, affine = values(*shape, dtype=dtype), place(seed)
    images = IsmrmrdImages.from_volume(data, affine)
    z, y, x = images.data.shape[2:]
    assert torch.equal(images.data.view(data.shape), data) and (y, x) == data.shape[-2:]
    assert z == (data.shape[-3] if data.ndim > 2 else 1)
    assert len(images.data) == (data.shape[0] if data.ndim > 3 else 1)
    write_ismrmrd_images(tmp_path / "a.h5", images)
    result = read_ismrmrd_images(tmp_path / "a.h5")
    assert torch.equal(result.data, images.data.to(result.data.dtype))
    assert result.data.dtype == {torch.uint16: torch.int32, torch.uint32: torch.int64}.get(
        dtype, dtype
    )
    torch.testing.assert_close(result.affine(), affine, atol=1e-4, rtol=1e-5)
    assert all(torch.equal(result.header[name], given) for name, given in images.header.items())
    assert result.header["image_type"].tolist() == [5 if dtype.is_complex else 3] * len(result.data)
    assert result.attributes == images.attributes


def test_everything_of_images_is_written_beside_raw_data(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_ismrmrd(path, IsmrmrdScan.from_grid(values(2, 3, 4, dtype=torch.complex64), (1, 1, 1)))
    images = IsmrmrdImages.from_volume(values(3, 2, 1, 4, 5).conj(), place(), kind="magnitude")
    header = {
        **images.header,
        "slice": torch.tensor([2, 0, 1]),
        "flags": torch.tensor([0, 1 << 7, 3]),
        "acquisition_time_stamp": torch.arange(3) + 2**31,
        "physiology_time_stamp": torch.arange(9).view(3, 3),
        "user_int": -torch.arange(24).view(3, 8),
        "user_float": torch.rand(3, 8),
    }
    texts = ("", "<ismrmrdMeta/>", "ä")
    images = dataclasses.replace(images, header=header, attributes=texts)
    for dataset, name in (("dataset", "first"), ("dataset", "second"), ("", "image_0")):
        write_ismrmrd_images(path, images, name, dataset)
    result = read_ismrmrd_images(path, "second")
    assert torch.equal(result.data, images.data) and result.attributes == texts
    assert all(torch.equal(result.header[name], given) for name, given in header.items())
    assert read_ismrmrd(path).kspace.shape == (2, 3, 4)
    some = read_ismrmrd_images(path, "image_0", "", where={"slice": [0, 1], "image_type": 1})
    assert torch.equal(some.data, images.data[1:]) and some.attributes == texts[1:]
    with pytest.raises(ValueError, match=r"name must be one of .*\['first', 'second'\], got None"):
        read_ismrmrd_images(path)


def test_slices_are_along_their_positions() -> None:
    images = IsmrmrdImages.from_volume(values(3, 1, 1, 4, 5), place())
    normal = images.header["slice_dir"]
    positions = images.header["position"] + 7 * torch.arange(3)[:, None] * normal
    header = {**images.header, "position": positions, "slice": torch.arange(3)}
    affine = dataclasses.replace(images, header=header).affine()
    expected = place()
    expected[:3, 2] *= 7 / 5
    torch.testing.assert_close(affine, expected, atol=1e-4, rtol=1e-5)


def test_the_place_of_a_scan_is_that_of_its_image(tmp_path: Path) -> None:
    scan = IsmrmrdScan.from_grid(values(1, 2, 3, 4, dtype=torch.complex64), (40, 30, 20))
    images = IsmrmrdImages.from_volume(values(2, 3, 4), scan.affine())
    for name in ("position", "read_dir", "phase_dir", "slice_dir"):
        torch.testing.assert_close(images.header[name][0], scan.details[name][0])
    assert images.header["field_of_view"].tolist() == [[40, 30, 20]]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"data": [1.0]}, TypeError, "data must be a torch.Tensor, got <class 'list'>"),
        ({"affine": None}, TypeError, "affine must be a torch.Tensor, got <class 'NoneType'>"),
        ({"data": torch.ones(3)}, ValueError, r"\(\[N, \[C,\]\] \[Z,\] Y, X\), got the shape \(3,"),
        ({"data": torch.ones(0, 3)}, ValueError, r"got the shape \(0, 3\)"),
        (
            {"kind": "complex"},
            ValueError,
            "kind must be one of .* and fit torch.float32, got 'comp",
        ),
        ({"affine": torch.eye(3)}, ValueError, r"an invertible \(4, 4\) matrix in mm, got"),
        ({"affine": torch.ones(4, 4)}, ValueError, "invertible"),
        (
            {"affine": torch.eye(4) + torch.eye(4).roll(1, 1)},
            ValueError,
            "must be perpendicular and of length 1",
        ),
    ],
)
def test_errors_of_volumes(arguments: dict[str, Any], error: type[Exception], match: str) -> None:
    given = {"data": torch.ones(2, 3), "affine": place()} | arguments
    with pytest.raises(error, match=f"IsmrmrdImages: .*{match}"):
        IsmrmrdImages.from_volume(**given)


def test_errors_of_written_images(tmp_path: Path) -> None:
    path, images = tmp_path / "a.h5", IsmrmrdImages.from_volume(torch.ones(2, 3), place())
    with pytest.raises(TypeError, match="images must be IsmrmrdImages, got <class"):
        write_ismrmrd_images(path, torch.ones(2, 3))  # type: ignore[arg-type]
    header = images.header
    changes: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"data": torch.ones(2, 3)}, ValueError, r"data must be \(N, C, Z, Y, X\) of at most"),
        ({"data": images.data.bool()}, TypeError, "one of the dtypes uint16, .*, got torch.bool"),
        ({"data": images.data.bfloat16()}, TypeError, "got torch.bfloat16; convert them"),
        ({"attributes": ()}, ValueError, "attributes must be a string for each of 1 images, got 0"),
        ({"header": {"channels": torch.ones(1)}}, ValueError, "header must not have channels"),
        ({"header": {"other": torch.ones(1)}}, ValueError, "fields of the standard, got 'other'"),
        (
            {"header": {**header, "slice": torch.tensor([-1])}},
            ValueError,
            "slice must be from 0 to 65535, got -1 to -1",
        ),
    ]
    for change, error, match in changes:
        with pytest.raises(error, match=f"write_ismrmrd_images: .*{match}"):
            write_ismrmrd_images(path, dataclasses.replace(images, **change))
    with pytest.raises(ValueError, match="name must be that of one group, got 'a/b'"):
        write_ismrmrd_images(path, images, "a/b")
    assert not path.exists()
    path.write_text("text")
    with pytest.raises(ValueError, match=r"a.h5 must be an HDF5 file or not there, got another"):
        write_ismrmrd_images(path, images)
    path.unlink()
    write_ismrmrd_images(path, images)
    with pytest.raises(ValueError, match="'image_0' must be a new group, got one that is in the"):
        write_ismrmrd_images(path, images)
    with pytest.raises(
        ValueError, match="'header' in /dataset/image_0 must be a Group of the file"
    ):
        write_ismrmrd_images(path, images, "a", "dataset/image_0/header")
    fov = {**header, "field_of_view": torch.zeros(1, 3)}
    with pytest.raises(ValueError, match="field_of_view must be three lengths in mm, the same for"):
        dataclasses.replace(images, header=fov).affine()
    with pytest.raises(ValueError, match="field_of_view must be three lengths in mm"):
        dataclasses.replace(images, header={}).affine()


def changed(path: Path, name: str, new: Any) -> Path:
    with h5py.File(path, "r+") as file:
        group = file["dataset/image_0"]
        if name in group:
            del group[name]
        if new is not None:
            group[name] = new
    return path


def test_errors_of_read_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(FileNotFoundError):
        read_ismrmrd_images(path)
    write_ismrmrd_images(path, IsmrmrdImages.from_volume(torch.ones(2, 3), place()))
    with pytest.raises(ValueError, match=r"a.h5 must have images where {'slice': \[3\]}, got none"):
        read_ismrmrd_images(path, where={"slice": 3})
    with pytest.raises(ValueError, match=r"where must name some of .*, got \['segment'\]"):
        read_ismrmrd_images(path, where={"segment": 0})
    with pytest.raises(
        ValueError, match="'b' in /dataset must be a Group of the file, got nothing"
    ):
        read_ismrmrd_images(path, "b")
    assert read_ismrmrd_images(changed(path, "attributes", None)).attributes == ("",)
    for name, new, match in (
        (
            "data",
            torch.ones(2, 3).numpy(),
            r"a header for each image \(N, C, Z, Y, X\), got \(1,\)",
        ),
        ("data", h5py.Empty("f4"), r"data must be stored for the shape None, got 0 bytes"),
        ("data", [[[[["a"]]]]], r"data must be numbers, got object"),
        *(
            ("data", np.ones((1,) * 5, [("real", kind), ("imag", kind)]), "data must be numbers")
            for kind in ("i4", "f2")
        ),
        ("header", [1.0], r"must have a header for each image .*, got \(1,\) of float64"),
        ("data", h5py.ExternalLink("b.h5", "data"), "'data' in .* got ExternalLink"),
    ):
        with pytest.raises(ValueError, match=f"read_ismrmrd_images: .*{match}"):
            read_ismrmrd_images(changed(path, name, new))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="write_ismrmrd_images: h5py must be installed"):
        write_ismrmrd_images(path, IsmrmrdImages.from_volume(torch.ones(2, 3), place()))
    with pytest.raises(ImportError, match="read_ismrmrd_images: h5py must be installed"):
        read_ismrmrd_images(path)
