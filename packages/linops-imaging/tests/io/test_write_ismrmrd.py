"""Scans that are written, read back; geometry of scans."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT
from linops_imaging import epi
from linops_imaging.io import IsmrmrdScan, _write_ismrmrd, read_ismrmrd, write_ismrmrd
from linops_imaging.io._ismrmrd_header import header_of

h5py = pytest.importorskip("h5py")
OTHERS = (
    *("calibration", "navigation", "phase correction", "feedback", "dummy"),
    *("coil correction", "phase stabilization"),
)
LEFT_TO_RIGHT = torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64))


def grid(*sizes: int) -> Tensor:
    return torch.randn(sizes, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def same(one: IsmrmrdScan, other: IsmrmrdScan) -> None:
    for entry in dataclasses.fields(IsmrmrdScan):
        a, b = getattr(one, entry.name), getattr(other, entry.name)
        if entry.name == "details":
            assert all(torch.equal(a[key], b[key].to(a[key])) for key in a)
        elif entry.name == "counters":
            assert all(torch.equal(a[key], b[key]) for key in a)
        elif isinstance(a, Tensor):
            assert torch.equal(a, b), entry.name
        else:
            assert a == b, entry.name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_grid_is_written_and_read(tmp_path: Path, data: st.DataObject) -> None:
    n_coils, z, y, x = data.draw(st.tuples(*[st.integers(1, 4)] * 4))
    kspace = grid(n_coils, *([z] if z > 1 else []), y, x)
    lines = data.draw(st.sets(st.integers(0, z * y - 1), min_size=1))
    mask = torch.zeros(z * y, dtype=torch.bool)
    mask[[*lines]] = True
    mask = mask.view(kspace.shape[1:-1])
    scan = IsmrmrdScan.from_grid(kspace, (200, 100.5, 5), mask=mask, dwell_time=2.5)
    write_ismrmrd(tmp_path / "a.h5", scan)
    result = read_ismrmrd(tmp_path / "a.h5")
    same(scan, result)
    again, measured = result.on_grid()
    assert torch.equal(measured, mask[..., None].expand_as(measured))
    assert torch.equal(again, kspace * mask[..., None])


def scan_of(n_lines: int = 6, **changes: Any) -> IsmrmrdScan:
    scan = IsmrmrdScan.from_grid(grid(2, n_lines, 4), (40, 60, 5))
    return dataclasses.replace(scan, **changes)


def test_everything_of_a_scan_is_written(tmp_path: Path) -> None:
    scan = scan_of(
        trajectory=torch.rand(6, 4, 3),
        noise=grid(2, 70000),
        noise_dwell_time=3.0,
        is_reversed=torch.arange(6) % 2 == 1,
        centre_sample=torch.arange(6) % 3,
        discarded=torch.tensor([[1, 0]] * 6),
    )
    details = {
        "acquisition_time_stamp": torch.arange(6) + 2**31,
        "physiology_time_stamp": torch.arange(18).view(6, 3),
        "patient_table_position": torch.rand(6, 3),
        "user": torch.arange(48).view(6, 8),
        "user_int": -torch.arange(48).view(6, 8),
        "user_float": torch.rand(6, 8),
        "measurement_uid": torch.arange(6),
        "scan_counter": torch.arange(6),
    }
    counters = {name: torch.arange(6) + k for k, name in enumerate(scan.counters)}
    scan = dataclasses.replace(scan, details={**scan.details, **details}, counters=counters)
    write_ismrmrd(tmp_path / "a.h5", scan, "measurement/one")
    same(scan, read_ismrmrd(tmp_path / "a.h5", "measurement/one"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(OTHERS), unique=True), st.booleans())
def test_lines_of_other_kinds_are_written_and_read(
    tmp_path: Path, kinds: list[str], has_noise: bool
) -> None:
    noise: dict[str, Any] = {}
    if has_noise:
        noise = {"noise": grid(2, 5), "noise_dwell_time": 3.0}
    scan, others = scan_of(**noise), {}
    for number, kind in enumerate(kinds):
        lines = IsmrmrdScan.from_grid(grid(2, 3, 5 + number), (40, 60, 5), dwell_time=2.0 + number)
        turned = torch.tensor([number % 2 == 0, False, True])
        others[kind] = dataclasses.replace(lines, encoding=scan.encoding, is_reversed=turned)
    write_ismrmrd(tmp_path / "a.h5", scan, others=others)
    result = read_ismrmrd(tmp_path / "a.h5")
    assert result.left_out == dict.fromkeys(kinds, 3)
    same(scan, dataclasses.replace(result, left_out={}))
    for kind, lines in others.items():
        result = read_ismrmrd(tmp_path / "a.h5", lines=kind)
        same(
            dataclasses.replace(lines, header=scan.header),
            dataclasses.replace(result, left_out={}, noise=None, noise_dwell_time=None),
        )


def test_phase_correction_lines_correct_what_was_read_back(tmp_path: Path) -> None:
    size, image = 8, grid(2, 8, 8)
    turned = torch.arange(size) % 2 == 1
    ghosts = FFT(dims=("Ny",), to=("Ky",), centered=True)(image)
    scanner = epi.LinePhase(0.6, 0.05, turned, size)
    along_x = FFT(dims=("Nx",), to=("Kx",), centered=True)
    three = torch.tensor([False, True, False])
    reference = epi.LinePhase(0.6, 0.05, three, size)(grid(2, 1, 8).expand(2, 3, 8))
    scans = [
        dataclasses.replace(IsmrmrdScan.from_grid(kspace, (40, 40, 5)), is_reversed=backwards)
        for kspace, backwards in (
            (turned_back(along_x(scanner(ghosts)), turned), turned),
            (turned_back(along_x(reference), three), three),
        )
    ]
    centres = [torch.where(s.is_reversed, size // 2 - 1, size // 2) for s in scans]
    scan, lines = (
        dataclasses.replace(s, centre_sample=c) for s, c in zip(scans, centres, strict=True)
    )
    lines = dataclasses.replace(lines, encoding=scan.encoding)
    write_ismrmrd(tmp_path / "a.h5", scan, others={"phase correction": lines})
    read = read_ismrmrd(tmp_path / "a.h5")
    result = read_ismrmrd(tmp_path / "a.h5", lines="phase correction")
    constant, slope = epi.estimate_phase(result.readouts(), result.is_reversed)
    corrected = epi.LinePhase(constant, slope, read.to_grid(read.is_reversed), size)
    lines_of_image = along_x.H(read.on_grid()[0])
    torch.testing.assert_close(corrected.H(lines_of_image), ghosts, atol=1e-4, rtol=1e-4)


def turned_back(kspace: Tensor, backwards: Tensor) -> Tensor:
    """Return lines in the order in which they were measured."""
    return torch.where(backwards[:, None], kspace.flip(-1), kspace)


def test_many_coils_and_lazy_conjugates(tmp_path: Path) -> None:
    scan = IsmrmrdScan.from_grid(grid(70, 2, 2).conj(), (1, 1, 1))
    write_ismrmrd(tmp_path / "a.h5", scan)
    assert torch.equal(read_ismrmrd(tmp_path / "a.h5").kspace, scan.kspace)
    with h5py.File(tmp_path / "a.h5") as file:
        mask = file["dataset/data"][0]["head"]["channel_mask"]
    assert mask[0] == 2**64 - 1 and mask[1] == 2**6 - 1 and not mask[2:].any()


def rotated() -> Tensor:
    """Return three orthonormal directions as columns."""
    directions: Tensor = torch.linalg.qr(grid(3, 3).real.double()).Q
    return directions


def placed(centres: Tensor, **counters: Tensor) -> IsmrmrdScan:
    """Return a scan of rotated slices with these centres, two lines each."""
    n = len(centres)
    scan = IsmrmrdScan.from_grid(grid(1, 2 * n, 4), (40.0, 60.0, 5.0))
    number = torch.arange(n).repeat_interleave(2)
    details = {"position": centres[number].float()}
    for name, direction in zip(("read_dir", "phase_dir", "slice_dir"), rotated().T, strict=True):
        details[name] = direction.float().expand(2 * n, 3)
    encoding = scan.encoding._replace(encoded_size=(4, 6, 1), recon_size=(2, 6, 1))
    encoding = encoding._replace(recon_fov=(20.0, 60.0, 5.0))
    return dataclasses.replace(
        scan, encoding=encoding, details=details, counters={**scan.counters, "slice": number}
    )


@pytest.mark.parametrize(("name", "x"), [("recon", 1), ("encoded", 2)])
def test_the_middle_of_the_grid_is_at_the_position(name: Any, x: int) -> None:
    centre = torch.tensor([[10.0, -20.0, 30.0]], dtype=torch.float64)
    affine = placed(centre).affine(name)
    at = affine @ torch.tensor([x, 3, 0, 1], dtype=torch.float64)
    torch.testing.assert_close(at[:3], LEFT_TO_RIGHT @ centre[0])
    torch.testing.assert_close(
        affine[:3, :3], LEFT_TO_RIGHT @ rotated() * torch.tensor([10.0, 10, 5]), atol=1e-5, rtol=0
    )


def test_slices_are_along_their_positions() -> None:
    centres = (
        torch.tensor([1.0, 2, 3]).double() + 7.5 * torch.arange(4.0)[:, None] * rotated()[:, 2]
    )
    affine = placed(centres).affine()
    for number, centre in enumerate(centres):
        at = affine @ torch.tensor([1, 3, number, 1], dtype=torch.float64)
        torch.testing.assert_close(at[:3], LEFT_TO_RIGHT @ centre, atol=1e-4, rtol=0)


def test_partitions_of_a_volume() -> None:
    scan = IsmrmrdScan.from_grid(grid(1, 4, 6, 8), (16, 18, 20))
    expected = torch.diag(torch.tensor([-2.0, -3, 5, 1])).double()
    expected[:3, 3] = torch.tensor([8.0, 9, -10])
    torch.testing.assert_close(scan.affine(), expected)


def test_places_that_are_no_volume_are_refused() -> None:
    scan = placed(torch.tensor([[0.0, 0, 0], [0, 0, 5], [0, 0, 7]]).double())
    with pytest.raises(ValueError, match="slices must be single and equally spaced in the order"):
        scan.affine()
    with pytest.raises(ValueError, match="must be single and equally spaced"):
        placed(torch.zeros(2, 3).double()).affine()
    details = dict(scan.details)
    with pytest.raises(ValueError, match="grid must be 'recon' or 'encoded', got 'image'"):
        scan.affine("image")  # type: ignore[arg-type]
    moved = {**details, "position": torch.arange(18.0).view(6, 3)}
    with pytest.raises(ValueError, match="position must be the same for all lines of a slice"):
        dataclasses.replace(scan, details=moved).affine()
    turned = {**details, "read_dir": torch.eye(3).repeat(2, 1)}
    with pytest.raises(ValueError, match="read_dir must be one direction for all lines, got"):
        dataclasses.replace(scan, details=turned).affine()
    del details["position"]
    with pytest.raises(ValueError, match="the file must have position, got none"):
        dataclasses.replace(scan, details=details).affine()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kspace": torch.ones(2, 3, 4)}, r"must be complex with the axes \(C, \[Z,\] Y, X\), got"),
        ({"kspace": grid(3, 4)}, r"complex64 of the shape \(3, 4\)"),
        ({"fov": (1, 1)}, r"fov must be three lengths in mm, got \(1, 1\)"),
        ({"fov": (1, 1, 0)}, "IsmrmrdScan: fov must be positive and finite, got 0"),
        ({"mask": torch.ones(4, dtype=torch.bool)}, r"of the shape \(3,\) and have a line, got"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, "and have a line"),
        ({"dwell_time": 0.0}, "dwell_time must be positive and finite, got 0.0"),
        ({"recon_size": (2, 3)}, r"recon_size must be 3 positive integers, got \(2, 3\)"),
        (
            {"recon_size": (2.0, 3, 1)},
            r"recon_size must be 3 positive integers, got \(2\.0, 3, 1\)",
        ),
        ({"recon_size": (5, 3, 1)}, r"recon_size must be at most \(4, 3, 1\), got \(5, 3, 1\)"),
    ],
)
def test_errors_of_grids(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"kspace": grid(2, 3, 4), "fov": (1, 1, 1)} | arguments
    with pytest.raises(ValueError, match=message):
        IsmrmrdScan.from_grid(**given)


def test_errors_of_scans(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="write_ismrmrd: scan must be an IsmrmrdScan, got <class"):
        write_ismrmrd(tmp_path / "a.h5", grid(2, 3))  # type: ignore[arg-type]
    scan = scan_of()
    counters = {**scan.counters, "slice": torch.full((6,), 2**16)}
    with pytest.raises(ValueError, match="slice must be from 0 to 65535, got 65536 to 65536"):
        write_ismrmrd(tmp_path / "a.h5", dataclasses.replace(scan, counters=counters))
    long = IsmrmrdScan.from_grid(grid(1, 1, 2**16), (1, 1, 1))
    long = dataclasses.replace(long, centre_sample=torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="at most 65535 samples and 1024 coils, got 65536 and 1"):
        write_ismrmrd(tmp_path / "a.h5", long)


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    scan = scan_of()
    path = tmp_path / "a.h5"
    write_ismrmrd(path, scan)
    faults: list[tuple[dict[str, Any], str]] = [
        ({"trajectory": torch.zeros(6, 3, 2)}, r"trajectory must be \(6, 4, D\) as kspace is, got"),
        ({"noise": grid(3, 9), "noise_dwell_time": 1.0}, r"noise must be \(2, T\), of the coils"),
        ({"noise": grid(2, 9)}, "noise must have a noise_dwell_time, got None"),
        ({"noise": grid(2, 9), "noise_dwell_time": 0.0}, "noise_dwell_time must be positive"),
        ({"dwell_time": float("nan")}, "dwell_time must be positive and finite, got nan"),
        ({"counters": {}}, "counters must be kspace_encode_step_1, .* segment, got"),
        ({"discarded": torch.full((6, 2), 3)}, "discarded must be at most 4 samples of a line"),
        ({"discarded": torch.zeros(6, 3)}, r"discarded must have the shape \(6, 2\), got \(6, 3\)"),
        (
            {"is_reversed": torch.tensor([True])},
            r"is_reversed must have the shape \(6,\), got \(1,\)",
        ),
        (
            {"kspace": scan.kspace.real},
            r"kspace must be complex, \(C, L, X\), got torch.float32 of",
        ),
        ({"kspace": scan.kspace[0]}, r"kspace must be complex, .* of the shape \(6, 4\)"),
        ({"header": ""}, "the header must be XML, got"),
        ({"details": {"other": torch.zeros(6)}}, "details must be fields of the standard, got"),
        (
            {"details": {"user_float": torch.zeros(6, 3)}},
            r"user_float must be numbers of the shape",
        ),
        ({"details": {"user_int": torch.zeros(6, 8)}}, "user_int must be integers of the shape"),
        ({"centre_sample": torch.zeros(3, dtype=torch.int64)}, "center_sample must be integers of"),
    ]
    for changes, message in faults:
        with pytest.raises(ValueError, match=message):
            write_ismrmrd(path, dataclasses.replace(scan, **changes))
        same(scan, read_ismrmrd(path))  # the file that was there


def test_axes_that_are_no_axes_have_no_place() -> None:
    scan = scan_of()
    for name, value, message in (
        ("read_dir", [2.0, 0.0, 0.0], "must be perpendicular and of length 1, got"),
        ("read_dir", [0.0, 1.0, 0.0], "must be perpendicular and of length 1, got"),
        ("slice_dir", [0.0, 0.0, 0.0], "must be perpendicular and of length 1, got"),
        (
            "position",
            [0.0, 0.0, float("nan")],
            r"position must be finite and of the shape \(6, 3\)",
        ),
    ):
        details = {**scan.details, name: torch.tensor(value).expand(6, 3)}
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(scan, details=details).affine()
    details = {**scan.details, "position": torch.zeros(3)}
    with pytest.raises(ValueError, match=r"of the shape \(6, 3\), got the shape \(3,\)"):
        dataclasses.replace(scan, details=details).affine()


def test_grids_of_other_types(tmp_path: Path) -> None:
    scan = IsmrmrdScan.from_grid(grid(2, 3, 4).requires_grad_(), (1, 1, 1))
    assert not scan.on_grid()[0].requires_grad
    with pytest.raises(TypeError, match=r"kspace must be a torch.Tensor, got <class 'numpy"):
        IsmrmrdScan.from_grid(grid(2, 3, 4).numpy(), (1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"mask must be a torch.Tensor, got <class 'list'>"):
        IsmrmrdScan.from_grid(grid(2, 3, 4), (1, 1, 1), mask=[True])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fov must be three lengths in mm, got 5"):
        IsmrmrdScan.from_grid(grid(2, 3, 4), 5)  # type: ignore[arg-type]


def test_the_file_itself_is_a_group(tmp_path: Path) -> None:
    scan = scan_of()
    write_ismrmrd(tmp_path / "a.h5", scan, "")
    same(scan, read_ismrmrd(tmp_path / "a.h5", "/"))
    with pytest.raises(TypeError, match="write_ismrmrd: dataset must be the name of a group, got"):
        write_ismrmrd(tmp_path / "a.h5", scan, None)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"write_ismrmrd: dataset must be names of groups .*'\.\.'"
    ):
        write_ismrmrd(tmp_path / "a.h5", scan, "..")


def test_lines_keep_their_encoding(tmp_path: Path) -> None:
    """Lines of the second encoding were written as lines of the first."""
    first = scan_of()
    second = first.encoding._replace(trajectory="spiral", encoded_fov=(40.0, 1 / 3, 5.0))
    header = header_of([first.encoding, second], 2)
    scan = dataclasses.replace(first, header=header, encoding=second)
    write_ismrmrd(tmp_path / "a.h5", scan)
    same(scan, read_ismrmrd(tmp_path / "a.h5", encoding=1))
    other = second._replace(centre=(0, 0))
    with pytest.raises(
        ValueError, match=r"encoding must be one of those in scan.header, got .*too"
    ):
        write_ismrmrd(tmp_path / "a.h5", dataclasses.replace(scan, encoding=other))


def test_an_oversampled_readout(tmp_path: Path) -> None:
    """The image is the middle of the grid, and its place is that of the middle."""
    scan = IsmrmrdScan.from_grid(grid(2, 3, 8), (80, 30, 5), recon_size=(4, 3, 1))
    write_ismrmrd(tmp_path / "a.h5", scan)
    result = read_ismrmrd(tmp_path / "a.h5")
    same(scan, result)
    assert result.encoding.recon_size == (4, 3, 1) and result.encoding.recon_fov == (40, 30, 5)
    whole, middle = (result.affine(name) for name in ("encoded", "recon"))
    first = torch.tensor([2.0, 0, 0, 1], dtype=torch.float64)  # the first pixel that Crop keeps
    torch.testing.assert_close(whole @ first, middle[:, 3])
    torch.testing.assert_close(whole[:3, :3], middle[:3, :3])


def test_other_lines_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    scan, path = scan_of(), tmp_path / "a.h5"
    faults: list[tuple[Any, type[Exception], str]] = [
        ([scan], TypeError, r"others must be a mapping of kinds to scans, .*got <class 'list'>"),
        (
            {"imaging": scan},
            ValueError,
            r"others must have kinds of \('calibration', .*\), got 'imaging'",
        ),
        ({"dummy": scan.kspace}, TypeError, r"others\['dummy'\] must be an IsmrmrdScan, got"),
        ({"dummy": scan_of(counters={})}, ValueError, "counters must be kspace_encode_step_1"),
        (
            {"dummy": IsmrmrdScan.from_grid(grid(2, 3, 5), (40, 60, 5))},
            ValueError,
            r"scan\.encoding must be one of those in scan\.header",
        ),
    ]
    for others, error, match in faults:
        with pytest.raises(error, match=f"write_ismrmrd: {match}"):
            write_ismrmrd(path, scan, others=others)
        assert not path.exists()


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = scan_of()
    write_ismrmrd(tmp_path / "a.h5", old)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_write_ismrmrd, "_rows", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_ismrmrd(tmp_path / "a.h5", scan_of(4))
    same(old, read_ismrmrd(tmp_path / "a.h5"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]
