"""The resident memory of each reader: its peak, and what six calls keep."""

from __future__ import annotations

import ctypes
import gc
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from linops_imaging.io import read_cfl, read_ismrmrd, read_nifti, write_cfl

h5py = pytest.importorskip("h5py")
nibabel = pytest.importorskip("nibabel")
CLEAR = Path("/proc/self/clear_refs")
MIB = 2**20


def resident(what: str) -> int:
    """Return "VmRSS", the resident bytes of this process, or "VmHWM", their peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


def peak_and_growth(use: Callable[[], object]) -> tuple[int, int]:
    """Return the peak of the first of six calls above what is there before, and what they keep."""
    if not CLEAR.exists() or not hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        pytest.skip("the peak of resident memory is measured on Linux with glibc")
    gc.collect()
    libc.malloc_trim(0)  # freed memory that is still resident would hide a peak
    CLEAR.write_text("5")  # the peak is from now on
    before = resident("VmRSS")
    use()
    peak = resident("VmHWM") - before
    for _ in range(5):
        use()
    gc.collect()
    libc.malloc_trim(0)
    return peak, resident("VmRSS") - before


def ismrmrd(path: Path, n_lines: int, n_coils: int, n_samples: int) -> Path:
    numbers = h5py.vlen_dtype(np.dtype("f4"))
    counters = ["kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast"]
    counters += ["phase", "repetition", "set", "segment"]
    names = ["number_of_samples", "active_channels", "discard_pre", "discard_post"]
    names += ["center_sample", "encoding_space_ref", "trajectory_dimensions"]
    fields = [("flags", "u8"), *((name, "u2") for name in names), ("sample_time_us", "f4")]
    head = np.dtype([*fields, ("idx", np.dtype([(name, "u2") for name in counters]))])
    rows = np.zeros(n_lines, np.dtype([("head", head), ("traj", numbers), ("data", numbers)]))
    rows["head"]["number_of_samples"], rows["head"]["active_channels"] = n_samples, n_coils
    rows["head"]["idx"]["slice"] = np.arange(n_lines) % 8
    for row in rows:
        row["traj"], row["data"] = np.zeros(0, "f4"), np.ones(2 * n_coils * n_samples, "f4")
    space = "<matrixSize><x>4</x><y>4</y><z>1</z></matrixSize>"
    space += "<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm>"
    encoding = f"<encodedSpace>{space}</encodedSpace><reconSpace>{space}</reconSpace>"
    header = f"<h><encoding>{encoding}<trajectory>cartesian</trajectory></encoding></h>"
    with h5py.File(path, "w") as file:
        file["dataset/xml"] = header.encode()
        file.create_dataset("dataset/data", data=rows, chunks=(1,))
    return path


def test_reading_ismrmrd_takes_little_more_than_the_file(tmp_path: Path) -> None:
    """h5py kept the lists of all rows where one field of them was asked for."""
    read_ismrmrd(ismrmrd(tmp_path / "small.h5", 2, 2, 4))
    path = ismrmrd(tmp_path / "a.h5", 512, 8, 512)
    peak, growth = peak_and_growth(lambda: read_ismrmrd(path))
    # The file has 16 MiB; HDF5 keeps up to 32 MiB of metadata, here about 13, until it is closed.
    assert peak < 40 * MIB and growth < 8 * MIB
    some, growth = peak_and_growth(lambda: read_ismrmrd(path, where={"slice": [1]}))
    assert some < 20 * MIB and growth < 8 * MIB


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
@pytest.mark.parametrize("slope", [1.0, 2.0])
def test_reading_nifti_takes_little_more_than_the_image(
    tmp_path: Path, name: str, slope: float
) -> None:
    volume = np.zeros((128, 128, 256), "i2")
    for path, own in ((tmp_path / f"small_{name}", volume[:2]), (tmp_path / name, volume)):
        image = nibabel.Nifti1Image(own, np.eye(4))
        raw = bytearray(image.to_bytes())
        raw[112:116] = np.array(slope, "<f4").tobytes()  # scl_slope
        path.write_bytes(gzip.compress(raw, 1) if path.suffix == ".gz" else raw)
        size = read_nifti(path)[0].nbytes  # 8 MiB, or 32 if values are scaled
    del image, raw
    peak, growth = peak_and_growth(lambda: read_nifti(path))
    assert peak < 1.2 * size + 4 * MIB and growth < size / 2


def test_reading_and_writing_cfl_take_little_memory(tmp_path: Path) -> None:
    write_cfl(tmp_path / "a", torch.zeros(2**21))
    peak, growth = peak_and_growth(lambda: read_cfl(tmp_path / "a"))
    assert peak < 20 * MIB and growth < 8 * MIB  # of a file of 16
    array = torch.ones(2**10, 2**10, 8)  # 64 MiB in the file
    peak, growth = peak_and_growth(lambda: write_cfl(tmp_path / "a", array))
    assert peak < 32 * MIB and growth < 16 * MIB
