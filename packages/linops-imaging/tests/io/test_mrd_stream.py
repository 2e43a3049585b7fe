"""Streams that mrd-python writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_imaging.io import (
    Encoding,
    IsmrmrdImages,
    ismrmrd_groups,
    read_ismrmrd,
    read_ismrmrd_images,
    write_ismrmrd,
)

mrd = pytest.importorskip("mrd")
NS = "acquisition_time_stamp_ns" in vars(mrd.AcquisitionHeader())
"""Whether the installed version counts times in nanoseconds."""
FLAGS = mrd.AcquisitionFlags
NUMBERS = torch.randn(6, 2, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def header(n_encodings: int = 1) -> Any:
    result = mrd.Header()
    for _ in range(n_encodings):
        one = mrd.EncodingType(trajectory=mrd.Trajectory.EPI)
        one.encoded_space.matrix_size = mrd.MatrixSizeType(x=4, y=5, z=1)
        one.encoded_space.field_of_view_mm = mrd.FieldOfViewMm(x=200, y=100.5, z=5)
        one.recon_space.matrix_size = mrd.MatrixSizeType(x=2, y=5, z=1)
        one.recon_space.field_of_view_mm = mrd.FieldOfViewMm(x=100, y=100.5, z=5)
        limit = mrd.LimitType(minimum=0, maximum=4, center=3)
        one.encoding_limits.kspace_encoding_step_1 = limit
        ramp = mrd.UserParameterLongType(name="a < b", value=12)
        dwell = mrd.UserParameterDoubleType(name="dwellTime", value=1 / 3)
        one.trajectory_description = mrd.TrajectoryDescriptionType(
            user_parameter_long=[ramp], user_parameter_double=[dwell]
        )
        result.encoding.append(one)
    return result


def line(data: Tensor, step: int = 0, trajectory: Tensor | None = None, **head: Any) -> Any:
    result = mrd.Acquisition(data=data.numpy())
    result.head.idx.kspace_encode_step_1 = step
    result.head.center_sample = 2
    if NS:
        result.head.sample_time_ns = 2500
        result.head.acquisition_time_stamp_ns = 10**12 + step
    else:
        result.head.sample_time_us = 2.5
        result.head.acquisition_time_stamp = 10**6 + step
    for name, value in head.items():
        setattr(result.head, name, value)
    if trajectory is not None:
        result.trajectory = trajectory.numpy()
    return mrd.StreamItem.Acquisition(result)


def image(data: np.ndarray[Any, Any], case: str, **head: Any) -> Any:
    result = mrd.ImageHeader(image_type=mrd.ImageType.MAGNITUDE, **head)
    for name, axis in zip(("col_dir", "line_dir", "slice_dir"), np.eye(3, dtype="f4"), strict=True):
        setattr(result, name, axis)
    result.field_of_view = np.array([8, 6, 2], "f4")
    result.position = np.array([1, 2, 3], "f4")
    own = mrd.Image(head=result, data=data)
    values = mrd.ImageMetaValue.String("a < b"), mrd.ImageMetaValue.Int64(3)
    own.meta = {"name": [*values]}
    return getattr(mrd.StreamItem, case)(own)


def write(path: Path, items: list[Any], head: Any = None) -> Path:
    def stream() -> Iterator[Any]:
        yield from items

    with mrd.BinaryMrdWriter(str(path)) as writer:
        writer.write_header(header() if head is None else head)
        writer.write_data(stream())
    return path


def test_lines_are_read(tmp_path: Path) -> None:
    waveform = mrd.StreamItem.WaveformUint32(mrd.Waveform(data=np.zeros((1, 3), "u4")))
    items = [
        line(NUMBERS[0], 1, read_dir=np.array([0, 1, 0], "f4"), user_int=[5, -7]),
        waveform,
        line(NUMBERS[1], flags=FLAGS.IS_NOISE_MEASUREMENT),
        line(NUMBERS[2], 3, flags=FLAGS.IS_REVERSE | FLAGS.FIRST_IN_SLICE, discard_pre=1),
        line(NUMBERS[3], flags=FLAGS.IS_PHASECORR_DATA),
    ]
    path = write(tmp_path / "a.mrd", items)
    scan = read_ismrmrd(path)
    assert torch.equal(scan.kspace, NUMBERS[[0, 2]].transpose(0, 1))
    assert scan.encoding == Encoding(
        *("epi", (4, 5, 1), (200.0, 100.5, 5.0), (2, 5, 1), (100.0, 100.5, 5.0), (3, 0)),
        {"a < b": 12.0, "dwellTime": 1 / 3},
    )
    assert scan.dwell_time == 2.5 and scan.noise_dwell_time == 2.5
    assert scan.noise is not None and torch.equal(scan.noise, NUMBERS[1])
    assert scan.is_reversed.tolist() == [False, True] and scan.trajectory is None
    assert scan.discarded.tolist() == [[0, 0], [1, 0]] and scan.centre_sample.tolist() == [2, 2]
    assert scan.counters["kspace_encode_step_1"].tolist() == [1, 3]
    assert scan.counters["slice"].tolist() == [0, 0]
    assert scan.left_out == {"phase correction": 1, "WaveformUint32": 1}
    assert scan.details["read_dir"].tolist() == [[0, 1, 0], [0, 0, 0]]
    assert scan.details["user_int"].tolist() == [[5, -7], [0, 0]]
    assert "user" not in scan.details and "scan_counter" not in scan.details
    name, first = ("acquisition_time_stamp_ns", 10**12) if NS else ("acquisition_time_stamp", 10**6)
    assert scan.details[name].tolist() == [first + 1, first + 3]
    corrections = read_ismrmrd(path, lines="phase correction")
    assert torch.equal(corrections.kspace[:, 0], NUMBERS[3])


def test_lines_that_differ_are_read_by_groups(tmp_path: Path) -> None:
    locs = torch.rand(3, 4)
    items = [
        line(NUMBERS[0], 1),
        line(NUMBERS[1, :1, :3], 2, encoding_space_ref=1),
        line(NUMBERS[2], 3, locs),
        line(NUMBERS[3], 4, locs + 1),
    ]
    path = write(tmp_path / "a.mrd", items, header(2))
    with pytest.raises(ValueError, match=r"trajectory_dimensions must be .* read each of ismrm"):
        read_ismrmrd(path)
    scans = [read_ismrmrd(path, **group.selection) for group in ismrmrd_groups(path)]
    assert [scan.kspace.shape for scan in scans] == [(2, 1, 4), (1, 1, 3), (2, 2, 4)]
    assert scans[0].trajectory is None and scans[2].trajectory is not None
    assert torch.equal(scans[2].trajectory, torch.stack([locs, locs + 1]).mT)


def test_a_stream_becomes_a_file(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    path = write(tmp_path / "a.mrd", [line(NUMBERS[0], 1), line(NUMBERS[1], 2)])
    scan = read_ismrmrd(path)
    if NS:
        with pytest.raises(ValueError, match="the standard, got 'acquisition_time_stamp_"):
            write_ismrmrd(tmp_path / "a.h5", scan)
        return
    write_ismrmrd(tmp_path / "a.h5", scan)
    result = read_ismrmrd(tmp_path / "a.h5")
    assert torch.equal(result.kspace, scan.kspace) and result.encoding == scan.encoding
    stamps = (one.details["acquisition_time_stamp"] for one in (result, scan))
    assert torch.equal(*stamps)


def test_images_are_read(tmp_path: Path) -> None:
    data = np.arange(2 * 1 * 3 * 4, dtype="u2").reshape(2, 1, 3, 4)
    items = [
        image(data, "ImageUint16", slice=1, image_index=7),
        line(NUMBERS[0]),
        image(data + 1, "ImageUint16", image_index=8),
        image(data.astype("c8"), "ImageComplexFloat", image_series_index=2),
    ]
    path = write(tmp_path / "a.mrd", items)
    images = read_ismrmrd_images(path, where={"image_series_index": 0})
    assert images.data.dtype == torch.int32
    assert torch.equal(images.data, torch.from_numpy(np.stack([data, data + 1]).astype("i4")))
    assert images.header["image_index"].tolist() == [7, 8]
    assert images.header["image_type"].tolist() == [1, 1]
    assert images.attributes[0] == (
        "<ismrmrdMeta><meta><name>name</name><value>a &lt; b</value><value>3</value></meta>"
        "</ismrmrdMeta>"
    )
    one = read_ismrmrd_images(path, where={"image_series_index": 2})
    assert torch.equal(one.data[0], torch.from_numpy(data.astype("c8")))
    place = IsmrmrdImages.from_volume(one.data[0, 0], one.affine())
    assert place.header["position"].tolist() == [[1, 2, 3]]
    with pytest.raises(ValueError, match=r"images must have one shape and dtype, got .*by where"):
        read_ismrmrd_images(path)
    with pytest.raises(ValueError, match=r"a.mrd must have images where .*, got none of 3"):
        read_ismrmrd_images(path, where={"slice": 5})


def test_streams_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.mrd", [line(NUMBERS[0], 0, torch.rand(4, 2))])
    with pytest.raises(ValueError, match=r"must be \(D, 4\), got \(4, 2\); the converter ism"):
        read_ismrmrd(path)
    if NS:
        own = line(NUMBERS[0])
        own.value.phase = np.zeros(4, "f4")
        with pytest.raises(ValueError, match="must have no phase of their own, got one of"):
            read_ismrmrd(write(path, [own]))
    with pytest.raises(ValueError, match=r"kind imaging, got {'ImageUint16': 1}"):
        read_ismrmrd(write(path, [image(np.zeros((1, 1, 1, 2), "u2"), "ImageUint16")]))
    assert ismrmrd_groups(path) == []
    with pytest.raises(ValueError, match=r"a.mrd must have images, got none of 0"):
        read_ismrmrd_images(write(path, [line(NUMBERS[0])]))
    with pytest.raises(ValueError, match="the header must have an encoding, got none"):
        read_ismrmrd(write(path, [line(NUMBERS[0])], header(0)))
    whole = write(path, [line(x) for x in NUMBERS]).read_bytes()
    path.write_bytes(whole[:-60])
    with pytest.raises(ValueError, match=r"a.mrd must be an MRD stream for mrd-python .*, got: "):
        read_ismrmrd(path)
    path.write_bytes(whole.replace(b"centerSample", b"centreSample", 1))
    with pytest.raises(ValueError, match=r"the streams that it wrote.*, got: Inval"):
        read_ismrmrd(path)
    with mrd.BinaryMrdWriter(str(path)) as writer:
        writer.write_header(None)
        writer.write_data(iter(()))
    with pytest.raises(ValueError, match=r"read_ismrmrd: a.mrd must have a header, got none"):
        read_ismrmrd(path)
    monkeypatch.setitem(sys.modules, "mrd", None)
    with pytest.raises(ImportError, match=r"mrd must be .* pip install 'linops-imaging\[mrd\]'"):
        read_ismrmrd(path)
