"""Files written here with h5py, as the standard describes them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import linops_imaging
from linops_core import FFT, NamedLinop
from linops_imaging import NUFFT, epi
from linops_imaging.io import Encoding, IsmrmrdScan, ismrmrd_groups, read_ismrmrd
from linops_solvers import conjugate_gradients

h5py = pytest.importorskip("h5py")

U2 = "<u2"
COUNTERS = [
    *("kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast"),
    *("phase", "repetition", "set", "segment"),
]
IDX = np.dtype([*((name, U2) for name in COUNTERS), ("user", U2, 8)])
HEAD = np.dtype(
    [
        ("version", U2),
        ("flags", "<u8"),
        ("number_of_samples", U2),
        ("active_channels", U2),
        ("discard_pre", U2),
        ("discard_post", U2),
        ("center_sample", U2),
        ("encoding_space_ref", U2),
        ("trajectory_dimensions", U2),
        ("sample_time_us", "<f4"),
        ("position", "<f4", 3),
        ("idx", IDX),
    ]
)
FLOATS = h5py.vlen_dtype(np.dtype("<f4"))
ROW = np.dtype([("head", HEAD), ("traj", FLOATS), ("data", FLOATS)])
NOISE, CALIBRATION, BOTH, REVERSED, NAVIGATION = (1 << bit for bit in (18, 19, 20, 21, 22))


def xml(
    size: tuple[int, int, int] = (4, 4, 1),
    trajectory: str = "cartesian",
    limits: str = "",
    n_encodings: int = 1,
) -> str:
    """Return a header; the image is half as long along x."""

    def space(name: str, x: int) -> str:
        sizes = f"<x>{x}</x><y>{size[1]}</y><z>{size[2]}</z>"
        fov = "<x>200</x><y>100.5</y><z>5</z>"
        sizes = f"<matrixSize>{sizes}</matrixSize><fieldOfView_mm>{fov}</fieldOfView_mm>"
        return f"<{name}>{sizes}</{name}>"

    encoding = (
        f"<encoding>{space('encodedSpace', size[0])}{space('reconSpace', size[0] // 2 + 1)}"
        f"<encodingLimits>{limits}</encodingLimits><trajectory>{trajectory}</trajectory></encoding>"
    )
    name_space = 'xmlns="http://www.ismrm.org/ISMRMRD"'
    return (
        f'<?xml version="1.0"?><ismrmrdHeader {name_space}>{n_encodings * encoding}</ismrmrdHeader>'
    )


def line(
    data: Tensor,
    traj: Tensor | None = None,
    counters: Mapping[str, int] | None = None,
    **head: float,
) -> Any:
    """Return one row: samples (C, X)."""
    row = np.zeros(1, ROW)[0]
    row["head"]["active_channels"], row["head"]["number_of_samples"] = data.shape
    row["head"]["center_sample"] = data.shape[1] // 2
    row["head"]["sample_time_us"] = 5
    for name, value in (counters or {}).items():
        row["head"]["idx"][name] = value
    row["traj"] = np.zeros(0, "f4")
    if traj is not None:
        row["head"]["trajectory_dimensions"] = traj.shape[-1]
        row["traj"] = traj.flatten().numpy()
    row["data"] = torch.view_as_real(data).flatten().numpy()
    for name, number in head.items():
        row["head"][name] = number
    return row


def write(path: Path, rows: list[Any], header: str | None = None) -> Path:
    with h5py.File(path, "w") as file:
        group = file.create_group("dataset")
        text = xml() if header is None else header
        group.create_dataset("xml", data=[text.encode()], dtype=h5py.string_dtype())
        table = group.create_dataset("data", (len(rows),), ROW, chunks=(1,), maxshape=(None,))
        for number, row in enumerate(rows):
            table[number] = row
    return path


def lines(n: int = 4, n_coils: int = 2, n_samples: int = 4, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, n_coils, n_samples, dtype=torch.complex64, generator=generator)


def cartesian(data: Tensor, **head: Any) -> list[Any]:
    return [
        line(samples, counters={"kspace_encode_step_1": step}, **head)
        for step, samples in enumerate(data)
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_lines_are_read_and_come_to_their_places(tmp_path: Path, data: st.DataObject) -> None:
    """Lines of a whole scan, of which some are measured, in any order."""
    sizes = data.draw(st.tuples(*[st.integers(1, 3)] * 5))
    n_slices, n_contrasts, z, y, x = sizes
    whole = lines(n_slices * n_contrasts * z * y, 2, x).view(n_slices, n_contrasts, z, y, 2, x)
    places = list(np.ndindex(n_slices, n_contrasts, z, y))
    chosen = data.draw(st.lists(st.sampled_from(places), min_size=1, unique=True))
    centre = data.draw(st.integers(y // 2, y // 2 + 3))
    header = xml(
        (x, y, z),
        limits=f"<kspace_encoding_step_1><center>{centre}</center></kspace_encoding_step_1>",
    )
    names = ["slice", "contrast", "kspace_encode_step_2", "kspace_encode_step_1"]
    rows = []
    for place in chosen:
        counters = dict(zip(names, place, strict=True))
        counters["kspace_encode_step_1"] += centre - y // 2
        rows.append(line(whole[place], counters=counters))
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows, header))
    assert torch.equal(scan.kspace, torch.stack([whole[p] for p in chosen], 1))
    assert scan.trajectory is None and scan.noise is None and scan.left_out == {}
    assert scan.encoding == Encoding(
        *("cartesian", (x, y, z), (200.0, 100.5, 5.0), (x // 2 + 1, y, z), (200.0, 100.5, 5.0)),
        (centre, z // 2),
    )
    assert [*zip(*(scan.counters[n].tolist() for n in names[:3]), strict=True)] == [
        place[:3] for place in chosen
    ]

    kspace, mask = scan.on_grid()
    axes = [sorted({place[axis] for place in chosen}) for axis in (1, 0)]
    expected = torch.zeros(2, *map(len, axes), z, y, x, dtype=torch.complex64)
    measured = torch.zeros(*map(len, axes), z, y, x, dtype=torch.bool)
    for slice_, contrast, k2, k1 in chosen:
        at = (axes[0].index(contrast), axes[1].index(slice_), k2, k1)
        expected[(slice(None), *at)] = whole[slice_, contrast, k2, k1]
        measured[at] = True
    kept = [len(axis) for axis in axes if len(axis) > 1] + [z] * (z > 1) + [y, x]
    assert torch.equal(kspace, expected.view(2, *kept))
    assert torch.equal(mask, measured.view(kept))


def test_the_centre_of_the_grid_is_that_of_a_centred_fft(tmp_path: Path) -> None:
    point = torch.zeros(4, 4, dtype=torch.complex64)
    point[2, 2] = 1
    kspace = FFT(2, centered=True)(point)
    scan = read_ismrmrd(write(tmp_path / "a.h5", cartesian(kspace.unsqueeze(1))))
    result, mask = scan.on_grid()
    assert mask.all()
    torch.testing.assert_close(FFT(2, centered=True).H(result)[0], point)


def test_a_partial_echo_and_samples_to_discard(tmp_path: Path) -> None:
    data = lines(2, 1, 4)
    rows = [
        line(data[0, :, :3], counters={"kspace_encode_step_1": 1}, center_sample=1),
        line(data[1, :, :3], counters={"kspace_encode_step_1": 3}, center_sample=1, discard_pre=1,
             discard_post=1),
    ]  # fmt: skip
    kspace, mask = read_ismrmrd(write(tmp_path / "a.h5", rows)).on_grid()
    expected = torch.zeros(4, 4, dtype=torch.complex64)
    expected[1, 1:], expected[3, 2] = data[0, 0, :3], data[1, 0, 1]
    assert torch.equal(kspace[0], expected)
    assert torch.equal(mask, expected != 0)


def test_each_line_is_read_for_what_it_is(tmp_path: Path) -> None:
    data = lines(8)
    flags = [NOISE, 0, CALIBRATION, BOTH, NAVIGATION, NOISE, CALIBRATION | BOTH, 0]
    rows = [
        line(
            x, flags=flag, counters={"kspace_encode_step_1": k}, sample_time_us=3 + (flag == NOISE)
        )
        for k, (x, flag) in enumerate(zip(data, flags, strict=True))
    ]
    rows[-1]["head"]["encoding_space_ref"] = 1
    path = write(tmp_path / "a.h5", rows, xml((4, 8, 1), n_encodings=2))
    scan = read_ismrmrd(path)
    assert torch.equal(scan.kspace, data[[1, 3, 6]].transpose(0, 1))
    assert scan.noise is not None and torch.equal(scan.noise, torch.cat([data[0], data[5]], -1))
    assert (scan.dwell_time, scan.noise_dwell_time) == (3, 4)
    assert scan.left_out == {"calibration": 1, "navigation": 1, "other encodings": 1}
    calibration = read_ismrmrd(path, lines="calibration")
    assert calibration.counters["kspace_encode_step_1"].tolist() == [2, 3, 6]
    assert calibration.left_out == {"imaging": 1, "navigation": 1, "other encodings": 1}
    assert read_ismrmrd(path, encoding=1).counters["kspace_encode_step_1"].tolist() == [7]


def test_lines_of_every_kind_are_read(tmp_path: Path) -> None:
    """A line of calibration and imaging is not one of navigation, whatever is asked for."""
    kinds = {"navigation": 22, "phase correction": 23, "feedback": 25, "dummy": 26}
    kinds |= {"coil correction": 28, "phase stabilization": 29}
    data = lines(len(kinds) + 1)
    flags = [*(1 << bit for bit in kinds.values()), BOTH]
    rows = [line(x, flags=flag) for x, flag in zip(data, flags, strict=True)]
    path = write(tmp_path / "a.h5", rows)
    for number, kind in enumerate([*kinds, "calibration"]):
        assert torch.equal(read_ismrmrd(path, lines=kind).kspace, data[number].unsqueeze(1))


def test_details_that_are_no_numbers(tmp_path: Path) -> None:
    names = HEAD.names or ()
    head = np.dtype([(n, "S4" if n == "position" else HEAD[n]) for n in names])
    row = np.dtype([("head", head), ("traj", FLOATS), ("data", FLOATS)])
    with h5py.File(write(tmp_path / "a.h5", cartesian(lines())), "r+") as file:
        old = file["dataset/data"][:]
        new = np.empty(len(old), row)
        new["traj"], new["data"] = old["traj"], old["data"]
        for name in names:
            if name != "position":
                new["head"][name] = old["head"][name]
        del file["dataset/data"]
        file["dataset"].create_dataset("data", data=new)
    message = r"position in the header of lines must be numbers, got .S4"
    with pytest.raises(ValueError, match=message):
        read_ismrmrd(tmp_path / "a.h5")


def test_lines_that_differ_are_selected(tmp_path: Path) -> None:
    """One line with more samples, one with another bandwidth, noise with other coils."""
    data = lines(4)
    rows = [
        *cartesian(data),
        line(lines(1, 2, 6)[0]),
        line(data[0], sample_time_us=7, counters={"contrast": 1}),
        line(lines(1, 3, 9)[0], flags=NOISE),
        line(lines(1, 1, 9)[0], flags=NOISE, sample_time_us=2),
    ]
    path = write(tmp_path / "a.h5", rows)
    with pytest.raises(ValueError, match=r"number_of_samples .* 6 \(1 times, first in line 4\)"):
        read_ismrmrd(path)
    with pytest.raises(ValueError, match=r"sample_time_us .* by where={'sample_time_us': 5.0}"):
        read_ismrmrd(path, where={"number_of_samples": 4})
    scan = read_ismrmrd(path, where={"number_of_samples": 4, "sample_time_us": 5})
    assert torch.equal(scan.kspace, data.transpose(0, 1))
    assert scan.noise is None and scan.noise_dwell_time is None
    assert scan.left_out == {"not selected": 2, "noise": 2}
    assert read_ismrmrd(path, where={"contrast": 1}).dwell_time == 7
    noise = read_ismrmrd(path, lines="noise", where={"active_channels": 3})
    assert torch.equal(noise.kspace[:, 0], lines(1, 3, 9)[0])
    assert noise.left_out == {"imaging": 6, "not selected": 1}


def test_noise_with_two_dwell_times_is_left_out(tmp_path: Path) -> None:
    data = lines(4)
    noise = [line(data[0], flags=NOISE, sample_time_us=time) for time in (2, 3)]
    scan = read_ismrmrd(write(tmp_path / "a.h5", [*cartesian(data), *noise]))
    assert scan.noise is None and scan.left_out == {"noise": 2}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=4, max_size=4),
    st.sampled_from(["cpu", "meta"]),
)
def test_each_sample_is_about_the_centre_of_its_line(
    tmp_path: Path, layouts: list[tuple[int, int, int]], default: str
) -> None:
    data = lines(4, 2, 5)
    rows = [
        line(x, counters={"kspace_encode_step_1": k}, center_sample=centre, discard_pre=first,
             discard_post=last)
        for k, (x, (centre, first, last)) in enumerate(zip(data, layouts, strict=True))
    ]  # fmt: skip
    expected, measured = torch.zeros(2, 4, 13, dtype=torch.complex64), torch.zeros(4, 13).bool()
    for k, (centre, first, last) in enumerate(layouts):
        for sample in range(first, 5 - last):
            expected[:, k, 6 + sample - centre] = data[k, :, sample]
            measured[k, 6 + sample - centre] = True
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows, xml((13, 4, 1))))
    with torch.device(default):
        kspace, mask = scan.on_grid()
    assert torch.equal(kspace, expected) and torch.equal(mask, measured)


def test_a_scan_is_equal_to_itself_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", cartesian(lines()))
    one, other = read_ismrmrd(path), read_ismrmrd(path, "/dataset/")
    assert one == one and one != other and other not in [one] and len({one, other}) == 2
    assert xml() not in repr(one)


def test_a_trajectory_is_read_and_has_no_grid(tmp_path: Path) -> None:
    data, traj = lines(3), torch.rand(3, 4, 2)
    rows = [line(x, t) for x, t in zip(data, traj, strict=True)]
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows, xml(trajectory="radial")))
    assert scan.trajectory is not None and torch.equal(scan.trajectory, traj)
    with pytest.raises(ValueError, match="must be Cartesian for a grid, got 'radial'; use kspace"):
        scan.on_grid()


def test_another_group_and_many_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", cartesian(lines(150)), xml((4, 150, 1)))
    with h5py.File(path, "a") as file:
        file.move("dataset", "patient/first")
    assert torch.equal(read_ismrmrd(path, "patient/first").kspace, lines(150).transpose(0, 1))


ENTITIES = '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]>'
HEADERS = {
    "entities": (ENTITIES + xml().partition("?>")[2], "must have no DOCTYPE, got one"),
    "external": ('<!DOCTYPE a SYSTEM "file:///etc/passwd">' + xml(), "must have no DOCTYPE"),
    "not XML": ("<a><b></a>", "header must be XML, got: mismatched tag"),
    "empty": ("", "header must be XML"),
    "no encoding": ("<ismrmrdHeader/>", "the header must have an encoding, got none"),
    "no size": (xml().replace("matrixSize", "a"), "must have encoding/encodedSpace/matrixSize/x"),
    "size of 0": (xml((4, 0, 1)), "encodedSpace/matrixSize/y must be an integer from 1 to 65535"),
    "huge size": (xml((4, 10**9, 1)), "must be an integer from 1 to 65535, got '1000000000'"),
    "negative": (xml().replace("<x>4", "<x>-4"), "integer from 1 to 65535, got '-4'"),
    "no length": (
        xml().replace("100.5", "nan"),
        "fieldOfView_mm/y must be a length in mm, got 'nan'",
    ),
    "no number": (xml().replace("100.5", "wide"), "must be a length in mm, got 'wide'"),
}


@pytest.mark.parametrize(("header", "match"), HEADERS.values(), ids=HEADERS)
def test_bad_headers_are_refused(tmp_path: Path, header: str, match: str) -> None:
    path = write(tmp_path / "a.h5", cartesian(lines()), header)
    with pytest.raises(ValueError, match=f"read_ismrmrd: .*{match}"):
        read_ismrmrd(path)


def without(file: Any) -> None:
    del file["dataset/xml"]


def linked(file: Any) -> None:
    file["other"] = file["dataset/data"][()]
    del file["dataset/data"]
    file["dataset/data"] = h5py.ExternalLink("other.h5", "data")


def softly_linked(file: Any) -> None:
    file.move("dataset", "there")
    file["dataset"] = h5py.SoftLink("/there")


def stored_outside(file: Any) -> None:
    del file["dataset/xml"]
    file["dataset"].create_dataset("xml", (1,), "S9", external=[("/etc/hostname", 0, 9)])


def virtual(file: Any) -> None:
    del file["dataset/xml"]
    layout = h5py.VirtualLayout((1,), "S9")
    layout[0] = h5py.VirtualSource("/etc/hostname", "x", (1,))[0]
    file["dataset"].create_virtual_dataset("xml", layout)


def header_of_numbers(file: Any) -> None:
    file["dataset/xml"][0] = b""
    del file["dataset/xml"]
    file["dataset/xml"] = np.arange(3)


def header_of_references(file: Any) -> None:
    del file["dataset/xml"]
    file["dataset"].create_dataset("xml", data=[file["dataset"].ref], dtype=h5py.ref_dtype)


def header_not_text(file: Any) -> None:
    file["dataset/xml"][0] = b"\xff\xfe"


def table(dtype: Any, shape: tuple[int, ...] = (2,)) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        del file["dataset/data"]
        file["dataset"].create_dataset("data", shape, dtype, chunks=True)

    return change


def changed(dtype: np.dtype[Any], name: str, kind: str) -> np.dtype[Any]:
    assert dtype.names
    return np.dtype([(n, kind if n == name else dtype[n]) for n in dtype.names])


def row_with(name: str, kind: str) -> np.dtype[Any]:
    return np.dtype([("head", changed(HEAD, name, kind)), ("traj", FLOATS), ("data", FLOATS)])


def head_says(name: str, value: int, row: int = 1) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        there = file["dataset/data"]
        changed = there[row]
        changed["head"][name] = value
        there[row] = changed

    return change


INTEGERS = np.dtype([("head", HEAD), ("traj", FLOATS), ("data", h5py.vlen_dtype(np.dtype("<i4")))])
STRINGS = np.dtype([("head", HEAD), ("traj", h5py.string_dtype()), ("data", FLOATS)])
FILES: dict[str, tuple[Callable[[Any], None], str]] = {
    "no header": (without, "'xml' in /dataset must be a Dataset of the file, got nothing"),
    "external link": (linked, "'data' in /dataset must be a Dataset .*, got ExternalLink"),
    "soft link": (softly_linked, "'dataset' in / must be a Group of the file, got SoftLink"),
    "external storage": (stored_outside, "'xml' must be in the file, got values in other files"),
    "virtual": (virtual, "'xml' must be in the file, got values in other files"),
    "header of numbers": (header_of_numbers, "header must be one string, got 3 of int64"),
    "header of references": (header_of_references, "header must be one string, got <class"),
    "header not text": (header_not_text, "a.h5 must be an ISMRMRD file, got: 'utf-8' codec"),
    "numbers": (table("f4"), "flags in the header of lines must be u8, got None"),
    "no counters": (table(row_with("idx", "f4")), "kspace_encode_step_1 in .* got None"),
    "signed": (table(row_with("center_sample", "i2")), "center_sample in .* must be u2, got int16"),
    "opaque": (table(row_with("flags", "V8")), r"flags in .* must be u8, got \|V8"),
    "integers": (table(INTEGERS), "data must be lists of float32, got int32"),
    "strings": (table(STRINGS), "traj must be lists of float32, got <U0"),
    "grid": (table(ROW, (2, 2)), r"data must be a list of lines, got shape \(2, 2\)"),
    "empty": (table(ROW, (10**12,)), r"must be stored for the shape \(1000000000000,\), got 0 b"),
    "too long": (head_says("number_of_samples", 65535), "lines must fit the file of .* bytes, got"),
    "unlike": (
        head_says("number_of_samples", 3),
        r"got 3 \(1 times, first in line 1\), 4 \(3 times, first in line 0\); select lines, .* by "
        "where={'number_of_samples': 4}",
    ),
    "short": (head_says("trajectory_dimensions", 1), "trajectory_dimensions must be the same"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "match"), FILES.values(), ids=FILES)
def test_bad_files_are_refused(tmp_path: Path, change: Callable[[Any], None], match: str) -> None:
    path = write(tmp_path / "a.h5", cartesian(lines()))
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=f"read_ismrmrd: .*{match}"):
        read_ismrmrd(path)


def test_bad_lines_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    for rows, match in (
        (cartesian(lines(), number_of_samples=3), "data of a line must have 12 numbers, .* got 16"),
        (cartesian(lines(), active_channels=0), "must have samples and coils, got 4 of 0 coils"),
        (cartesian(lines(), flags=NAVIGATION), "of kind imaging, got {'navigation': 4}"),
    ):
        with pytest.raises(ValueError, match=f"read_ismrmrd: .*{match}"):
            read_ismrmrd(write(path, rows))


def test_a_trajectory_of_another_length_than_its_header_says(tmp_path: Path) -> None:
    rows = [line(x, torch.zeros(4, 2), trajectory_dimensions=1) for x in lines()]
    with pytest.raises(ValueError, match=r"traj of a line must have 4 numbers, .* got 8"):
        read_ismrmrd(write(tmp_path / "a.h5", rows))


def scan_with(tmp_path: Path, **changes: Any) -> IsmrmrdScan:
    scan = read_ismrmrd(write(tmp_path / "a.h5", cartesian(lines())))
    return dataclasses.replace(scan, **changes)


def test_lines_that_have_no_place_on_a_grid(tmp_path: Path) -> None:
    scan = scan_with(tmp_path)
    at = scan.counters["kspace_encode_step_1"]

    def counted(**counters: Tensor) -> IsmrmrdScan:
        return scan_with(tmp_path, counters={**scan.counters, **counters})

    huge = scan.encoding._replace(encoded_size=(4, 60000, 60000))
    for wrong, match in (
        (
            scan_with(tmp_path, is_reversed=at == 1),
            r"centre 2 read backwards; .* 3 - scan.centre_sample, scan.centre_sample\)\)",
        ),
        (counted(kspace_encode_step_1=at // 2), "must have different counters .*, got 2 with"),
        (
            counted(kspace_encode_step_1=at + 1),
            r"on a grid of 4 with centre 2, got 1 to 4; .*\(3, 0\)\)\)",
        ),
        (counted(kspace_encode_step_1=2 * at), "got 0 to 6; use kspace and counters$"),
        (counted(kspace_encode_step_2=at), "kspace_encode_step_2 must be on a grid of 1"),
        (
            scan_with(tmp_path, centre_sample=0 * at),
            r"must fit 4 points .* got the centre 0; .*scan.centre_sample, 2\)\)",
        ),
        (
            scan_with(tmp_path, encoding=huge),
            "at most 1000 lines for each measured line, got 36000000",
        ),
    ):
        with pytest.raises(ValueError, match=f"IsmrmrdScan: .*{match}"):
            wrong.on_grid()


@pytest.mark.parametrize("shift", [-7, -1, 1, 40])
@pytest.mark.parametrize("size", [4, 5])
def test_the_centre_that_an_error_names_is_a_remedy(tmp_path: Path, shift: int, size: int) -> None:
    scan = scan_with(tmp_path)
    encoding = scan.encoding._replace(encoded_size=(4, size, 1), centre=(size // 2, 0))
    moved = scan.counters["kspace_encode_step_1"] + shift * 2
    scan = dataclasses.replace(
        scan, encoding=encoding, counters={**scan.counters, "kspace_encode_step_1": moved}
    )
    with pytest.raises(ValueError, match=r"kspace_encode_step_1 must be on a grid") as caught:
        scan.on_grid()
    names = {"dataclasses": dataclasses, "scan": scan}
    remedied = eval(str(caught.value).partition("such as: ")[2], names)
    assert int(remedied.on_grid()[1].any(-1).sum()) == len(moved)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4),
    st.floats(0, 1) | st.just(1.0),
)
def test_a_damaged_file_is_refused_or_read(
    tmp_path: Path, edits: list[tuple[float, int]], keep: float
) -> None:
    path = write(tmp_path / "a.h5", cartesian(lines()))
    garbled = bytearray(path.read_bytes())
    for place, value in edits:
        garbled[int(place * (len(garbled) - 1))] = value
    path.write_bytes(garbled[: int(keep * len(garbled))])
    try:
        assert read_ismrmrd(path).kspace.ndim == 3
    except ValueError as error:
        assert str(error).startswith("read_ismrmrd: ") and "\n" not in str(error)


def test_bad_arguments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_ismrmrd(tmp_path / "no.h5")
    path = write(tmp_path / "a.h5", cartesian(lines()))
    with pytest.raises(
        ValueError,
        match=r"lines must be one of \('imaging', .*'navigation', .*, got",
    ):
        read_ismrmrd(path, lines="all")
    with pytest.raises(ValueError, match="encoding must be at least 0, got -1"):
        read_ismrmrd(path, encoding=-1)
    with pytest.raises(ValueError, match="encoding must be one of the 1 in the header, got 1"):
        read_ismrmrd(path, encoding=1)
    with pytest.raises(ValueError, match=r"'b' in / must be a Group .*; there are \['dataset'\]"):
        read_ismrmrd(path, dataset="b")
    with pytest.raises(TypeError, match=r"where must be a mapping of names to numbers, got \[1\]"):
        read_ismrmrd(path, where=[1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"where must name some of .*, got \['version'\]"):
        read_ismrmrd(path, where={"version": 1})
    with pytest.raises(TypeError, match=r"where\['set'\] must be a real number, got 'a'"):
        read_ismrmrd(path, where={"set": "a"})  # type: ignore[dict-item]
    with pytest.raises(
        ValueError, match=r"kind imaging where {'set': \[9\]}, got {'not selected': 4}"
    ):
        read_ismrmrd(path, where={"set": 9})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        ImportError, match=r"h5py must be .* pip install 'linops-imaging\[ismrmrd\]'"
    ):
        read_ismrmrd(path)


def test_lines_with_some_numbers_are_selected(tmp_path: Path) -> None:
    data = lines(6)
    rows = [
        line(x, counters={"slice": k // 2, "repetition": k % 2}, sample_time_us=0.1 + k)
        for k, x in enumerate(data)
    ]
    path = write(tmp_path / "a.h5", rows)
    where = {"slice": range(1, 3), "repetition": torch.tensor([1]), "sample_time_us": [3.1, 9]}
    scan = read_ismrmrd(path, where=where)  # type: ignore[arg-type]
    assert torch.equal(scan.kspace[:, 0], data[3]) and scan.left_out == {"not selected": 5}
    with pytest.raises(ValueError, match=r"where\['slice'\] must have a number, got none"):
        read_ismrmrd(path, where={"slice": []})
    with pytest.raises(TypeError, match=r"where\['slice'\] must be a real number, got {1}"):
        read_ismrmrd(path, where={"slice": {1}})  # type: ignore[dict-item]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(1, 2),
            st.integers(1, 2),
            st.integers(0, 1),
            st.sampled_from([0, NOISE, CALIBRATION, BOTH, NAVIGATION]),
            st.sampled_from([0.3, 5.0]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_file_is_read_by_groups(
    tmp_path: Path, kinds: list[tuple[int, int, int, int, float]]
) -> None:
    """Each line is in one group, and those of calibration and imaging in two."""
    rows, data = [], []
    for number, (n_coils, n_samples, encoding, flags, time) in enumerate(kinds):
        data.append(lines(1, n_coils, n_samples, seed=number)[0])
        row = line(data[-1], flags=flags, encoding_space_ref=encoding)
        row["head"]["sample_time_us"] = time
        row["head"]["idx"]["slice"] = number
        rows.append(row)
    path = write(tmp_path / "a.h5", rows, xml(n_encodings=2))
    results: list[int] = []
    groups = ismrmrd_groups(path)
    for group in groups:
        scan = read_ismrmrd(path, **group.selection)
        numbers = scan.counters["slice"].tolist()
        assert group.n_lines == len(numbers)
        assert group.counters == ({"slice": numbers} if len(numbers) > 1 else {})
        assert all(torch.equal(scan.kspace[:, at], data[k]) for at, k in enumerate(numbers))
        results += numbers
    twice = [k for k, (*_, flags, _) in enumerate(kinds) if flags == BOTH]
    assert sorted(results) == sorted([*range(len(kinds)), *twice])
    assert len({group[:6] for group in groups}) == len(groups)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_lines_that_were_read_backwards_are_turned(tmp_path: Path, data: st.DataObject) -> None:
    """The same echo, read forwards and backwards, comes to the same place."""
    forwards = lines(4, 2, 5)
    layouts = data.draw(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=4, max_size=4))
    turned = data.draw(st.lists(st.booleans(), min_size=4, max_size=4))
    for name, backwards in (("a.h5", [False] * 4), ("b.h5", turned)):
        rows = []
        for k, (x, (centre, first, last)) in enumerate(zip(forwards, layouts, strict=True)):
            if backwards[k]:
                x, centre, first, last = x.flip(-1), 4 - centre, last, first
            layout = {"center_sample": centre, "discard_pre": first, "discard_post": last}
            flags = REVERSED if backwards[k] else 0
            rows.append(line(x, None, {"kspace_encode_step_1": 3 - k}, flags=flags, **layout))
        write(tmp_path / name, rows, xml((13, 4, 1), "epi"))
    one, other = read_ismrmrd(tmp_path / "a.h5"), read_ismrmrd(tmp_path / "b.h5")
    for a, b in zip(one.on_grid(), other.on_grid(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(one.readouts(), other.readouts())
    assert torch.equal(other.readouts().flip(1), one.on_grid()[0])
    assert other.to_grid(other.is_reversed).tolist() == turned[::-1]


def test_numbers_of_lines_on_the_grid(tmp_path: Path) -> None:
    rows = [
        line(x, counters={"kspace_encode_step_1": k, "slice": k // 2})
        for k, x in enumerate(lines())
    ]
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows))
    assert scan.to_grid(torch.arange(4) + 1).tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]
    assert scan.to_grid(torch.ones(4, 3)).shape == (2, 4, 3)
    with pytest.raises(ValueError, match=r"an entry for each of 4 lines, got the shape \(3,\)"):
        scan.to_grid(torch.ones(3))
    with pytest.raises(ValueError, match=r"an entry for each of 4 lines, got the shape \(\)"):
        scan.to_grid(torch.tensor(1))


def test_an_epi_scan_is_reconstructed_without_a_ghost(tmp_path: Path) -> None:
    """Odd lines and the second reference line are in the file as they were read, backwards."""
    image = torch.zeros(2, 8, 6, dtype=torch.complex64)
    image[:, 3:5, 1:4] = lines(2, 2, 3) + 3
    is_reversed = torch.arange(8) % 2 == 1
    phase = epi.LinePhase(0.7, -0.4, is_reversed, 6)
    readout = FFT(dims=("Nx",), to=("Kx",), centered=True)
    A = readout @ phase @ FFT(dims=("Ny",), shape=("C", "Ny", "Nx"), to=("Ky",), centered=True)
    three = torch.tensor([False, True, False])
    echo = image.sum(1, keepdim=True) * torch.exp(1j * torch.tensor([-0.3, 0, 0.3]))[:, None]
    references = readout(epi.LinePhase(0.7, -0.4, three, 6)(echo))
    rows = []
    for samples, reverse, flag in ((references, three, 1 << 23), (A(image), is_reversed, 0)):
        for step, backwards in enumerate(reverse.tolist()):
            x = samples[:, step].flip(-1) if backwards else samples[:, step]
            head = {"flags": flag | REVERSED * backwards, "center_sample": 2 if backwards else 3}
            rows.append(line(x.contiguous(), None, {"kspace_encode_step_1": step}, **head))
    path = write(tmp_path / "a.h5", rows, xml((6, 8, 1), "epi"))
    three_lines = read_ismrmrd(path, lines="phase correction")
    result = epi.estimate_phase(three_lines.readouts(), three_lines.is_reversed)
    scan = read_ismrmrd(path)
    kspace, _ = scan.on_grid()
    G = epi.LinePhase(*result, scan.to_grid(scan.is_reversed), 6)
    A = readout @ G @ FFT(dims=("Ny",), shape=("C", "Ny", "Nx"), to=("Ky",), centered=True)
    torch.testing.assert_close(A.H(kspace), image)


def described(**numbers: float) -> str:
    """Return the header of an echo planar scan of 6 x 8 with numbers of its readout."""
    pairs = "".join(
        f"<userParameter{kind}><name>{name}</name><value>{value}</value></userParameter{kind}>"
        for name, value in numbers.items()
        for kind in ["Double" if isinstance(value, float) else "Long"]
    )
    own = f"<trajectoryDescription><identifier>ConventionalEPI</identifier>{pairs}"
    end = "<trajectory>epi</trajectory>"
    return xml((6, 8, 1), "epi").replace(end, f"{end}{own}</trajectoryDescription>")


def test_samples_on_ramps_have_no_place_on_a_grid(tmp_path: Path) -> None:
    """The error has the locations, with which the image is found, also of lines read backwards."""
    image = torch.zeros(2, 8, 6, dtype=torch.complex64)
    image[:, 3:5, 1:4] = lines(2, 2, 3) + 3
    is_reversed = torch.arange(8) % 2 == 1
    along_y = FFT(dims=("Ny",), shape=("C", "Ny", "Nx"), to=("Ky",), centered=True)
    phase = epi.LinePhase(0.7, -0.4, is_reversed, 6)

    def model(locs: Tensor) -> NamedLinop:
        readout = NUFFT(locs, (6,), ("Kx",), ("Nx",), batch_shape=("C", "Ky"), tol=1e-5)
        return readout @ phase @ along_y

    data = model(epi.trapezoid(16, 6, 2.5, 12.0, 20.0, 12.0))(image)
    rows = []
    for step, backwards in enumerate(is_reversed.tolist()):
        x = data[:, step].flip(-1) if backwards else data[:, step]
        rows.append(line(x.contiguous(), None, {"kspace_encode_step_1": step}, sample_time_us=2.5,
                         flags=REVERSED * backwards))  # fmt: skip
    header = described(rampUpTime=12, rampDownTime=12, flatTopTime=20, dwellTime=2.5)
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows, header))
    assert scan.encoding.parameters["rampUpTime"] == 12
    for refused in (scan.on_grid, scan.readouts):
        with pytest.raises(ValueError, match=r"16 samples of 2\.5 us .* for 20 us") as caught:
            refused()
    locs = eval(str(caught.value).rpartition("locations ")[2], {"linops_imaging": linops_imaging})
    turned = torch.where(scan.is_reversed[:, None], scan.kspace.flip(-1), scan.kspace)
    kspace = scan.to_grid(turned.movedim(1, 0)).movedim(0, 1)
    A = model(locs)
    result = conjugate_gradients(A.N, A.H(kspace), max_num_iters=60, gtol=1e-6, ltol=0)
    torch.testing.assert_close(result, image, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("flat", [13, 14, 16, 17, 18])
@pytest.mark.parametrize(("up", "down"), [(12, 14), (14, 12), (12, 12), (1, 3)])
def test_lines_are_on_a_grid_if_their_samples_are_those_of_a_grid(
    tmp_path: Path, up: int, down: int, flat: int
) -> None:
    rows = [line(x, sample_time_us=2.5) for x in lines(1, 2, 6)]
    header = described(rampUpTime=up, rampDownTime=down, flatTopTime=flat, dwellTime=2.5)
    scan = read_ismrmrd(write(tmp_path / "a.h5", rows, header))
    steps = epi.trapezoid(6, 6, 2.5, up, flat, down).squeeze(1).diff()
    if torch.allclose(steps, torch.ones_like(steps), rtol=1e-9):
        assert scan.on_grid()[1].sum() == 6
    else:
        with pytest.raises(ValueError, match="equal distances"):
            scan.on_grid()


def test_samples_of_a_constant_gradient_are_on_a_grid(tmp_path: Path) -> None:
    rows = [line(x, sample_time_us=2.5) for x in lines(1, 2, 6)]
    header = described(rampUpTime=12, rampDownTime=14, flatTopTime=17.0)
    assert read_ismrmrd(write(tmp_path / "a.h5", rows, header)).on_grid()[1].sum() == 6
    header = described(rampUpTime=12).replace(">12<", ">fast<")
    with pytest.raises(
        ValueError, match="trajectoryDescription/userParameterLong must have number"
    ):
        read_ismrmrd(write(tmp_path / "a.h5", rows, header))
