"""Files as the data sets have them, written here with h5py."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import FFT
from linops_imaging.io import Encoding, read_fastmri
from linops_imaging.io._ismrmrd_header import header_of

h5py = pytest.importorskip("h5py")
ENCODING = Encoding(
    "cartesian", (12, 7, 1), (300.0, 175.0, 5.0), (6, 5, 1), (150.0, 125.0, 5.0), (3, 0)
)


def kspace(*shape: int) -> Tensor:
    result = torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    result[..., :1] = 0  # filled up
    return result


def write(path: Path, data: Tensor, **more: Any) -> Path:
    with h5py.File(path, "w") as file:
        file["kspace"] = data.numpy()
        file["ismrmrd_header"] = header_of([ENCODING], 4).encode()
        for name, values in more.items():
            file[name] = values
        file.attrs.update(acquisition="CORPDFS_FBK", max=np.float64(0.5), patient_id="0")
    return path


def images(data: Tensor) -> Tensor:
    """Return the root of the sum of squares over coils, cropped as fastMRI does."""
    result = FFT(2, centered=True).H(data).abs().square().sum(1).sqrt()
    return result[:, 3:9, 1:6]


def test_a_file_of_training(tmp_path: Path) -> None:
    data = kspace(3, 2, 12, 7)
    path = write(tmp_path / "a.h5", data, reconstruction_rss=images(data).numpy())
    scan = read_fastmri(path)
    assert torch.equal(scan.kspace, data) and scan.dims == ("S", "C", "Kx", "Ky")
    assert scan.mask.tolist() == [False] + [True] * 6 and scan.encoding == ENCODING
    assert scan.attributes == {"acquisition": "CORPDFS_FBK", "max": 0.5, "patient_id": "0"}
    coils = (scan.crop() @ FFT(2, centered=True).H)(scan.kspace)
    assert scan.reconstruction is not None
    torch.testing.assert_close(coils.abs().square().sum(1).sqrt(), scan.reconstruction)
    some = read_fastmri(path, [2, 0])
    assert torch.equal(some.kspace, data[[2, 0]]) and some.reconstruction is not None
    assert torch.equal(some.reconstruction, scan.reconstruction[[2, 0]])


def test_a_file_of_tests(tmp_path: Path) -> None:
    mask = torch.tensor([1, 0, 1, 1, 1, 0, 1], dtype=torch.bool)
    data = kspace(2, 12, 7) * mask
    scan = read_fastmri(write(tmp_path / "a.h5", data, mask=mask.numpy()))
    assert scan.dims == ("S", "Kx", "Ky") and scan.reconstruction is None
    assert scan.mask.tolist() == [False, False, True, True, True, False, True]
    cropped = scan.crop()(FFT(2, centered=True).H(scan.kspace))
    assert cropped.shape == (2, 6, 5)
    assert scan.crop((12, 4))(torch.arange(7.0).expand(12, 7))[0].tolist() == [1, 2, 3, 4]


def test_an_emulated_coil(tmp_path: Path) -> None:
    target = torch.ones(2, 4, 3).numpy()
    scan = read_fastmri(write(tmp_path / "a.h5", kspace(2, 12, 7), reconstruction_esc=target))
    assert scan.reconstruction is not None and scan.crop()(scan.kspace).shape == (2, 4, 3)


def without(name: str, new: Any = None) -> Any:
    def change(file: Any) -> None:
        del file[name]
        if new is not None:
            file[name] = new

    return change


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (without("kspace"), "'kspace' in / must be a Dataset of the file, got nothing"),
        (without("kspace", h5py.ExternalLink("b.h5", "a")), "'kspace' .* got ExternalLink"),
        (
            without("kspace", np.ones((2, 3, 4))),
            r"kspace must be complex .* got float64 of the shape",
        ),
        (without("kspace", np.ones((3, 4), "c8")), r"\(S, \[C,\] Kx, Ky\), got complex64 of the"),
        (without("ismrmrd_header"), "'ismrmrd_header' in / must be a Dataset"),
        (without("ismrmrd_header", b"<a/>"), "the header must have an encoding, got none"),
        (
            without("mask", np.ones(3)),
            r"mask must have a value for each of 7 columns, got .*\(3,\)",
        ),
        (
            without("reconstruction_rss", np.ones((1, 2, 3))),
            r"with the axes \(2, X, Y\), got float64",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, change: Any, match: str) -> None:
    more = {"mask": np.ones(7), "reconstruction_rss": np.ones((2, 2, 3))}
    path = write(tmp_path / "a.h5", kspace(2, 12, 7), **more)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=f"read_fastmri: .*{match}"):
        read_fastmri(path)


def test_bad_arguments_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_fastmri(tmp_path / "no.h5")
    path = write(tmp_path / "a.h5", kspace(2, 12, 7))
    for slices, error, match in (
        ([2], ValueError, "slices must be from 0 to 1, got 2"),
        ([-1], ValueError, "slices must be at least 0, got -1"),
        ([], ValueError, "slices must have a number, got none"),
        ([0.5], TypeError, r"slices must be an integer, got 0\.5"),
        (1, TypeError, "slices must be a sequence of integers, got 1"),
    ):
        with pytest.raises(error, match=f"read_fastmri: {match}"):
            read_fastmri(path, slices)  # type: ignore[arg-type]
    scan = read_fastmri(path)
    with pytest.raises(ValueError, match=r"size must be 2 positive integers, got \(4,\)"):
        scan.crop((4,))
    larger = scan.encoding._replace(recon_size=(6, 8, 1))
    with pytest.raises(ValueError, match=r"at most that of k-space, \(12, 7\), got \(6, 8\); pass"):
        dataclasses.replace(scan, encoding=larger).crop()
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match=r"a\.h5 must be a fastMRI file, got"):
        read_fastmri(path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="read_fastmri: h5py must be installed"):
        read_fastmri(path)
