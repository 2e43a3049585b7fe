"""ISMRMRD's own programs: the package ``ismrmrd``, and Debian's ``ismrmrd-tools``.

The places of images are those of nibabel and SimpleITK.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linops_core import FFT
from linops_imaging.io import (
    IsmrmrdImages,
    IsmrmrdScan,
    read_ismrmrd,
    read_ismrmrd_images,
    write_ismrmrd,
    write_ismrmrd_images,
    write_nifti,
)

h5py = pytest.importorskip("h5py")
GENERATOR = "ismrmrd_generate_cartesian_shepp_logan"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    if not shutil.which(GENERATOR):
        pytest.skip("ismrmrd-tools is not installed")
    path = tmp_path / "head.h5"
    options = ["-o", path, "-m", 48, "-c", 5, "-n", 0, "-a", 2, "-w", 8, "-C"]
    subprocess.run([GENERATOR, *map(str, options)], check=True, capture_output=True)
    return path


def values(path: Path, name: str) -> torch.Tensor:
    with h5py.File(path) as file:
        result = file["dataset"][name][0]
    return torch.from_numpy(result["real"] + 1j * result["imag"])


def test_the_head_of_the_generator_is_reconstructed(written: Path) -> None:
    """Two accelerated images, which together have all lines; the file has the images as well."""
    scan = read_ismrmrd(written)
    kspace, mask = scan.on_grid()
    assert kspace.shape == (5, 2, 48, 96) and scan.encoding.recon_size == (48, 48, 1)
    assert scan.noise is not None and len(scan.noise) == 5
    calibration, measured = read_ismrmrd(written, lines="calibration").on_grid()
    both = mask | measured
    whole = torch.where(mask, kspace, calibration)
    assert both.any(0).all() and not both.all()
    merged = torch.where(both[0], whole[:, 0], whole[:, 1])
    images = FFT(2, centered=True).H(merged)[..., 24:72]
    expected = values(written, "csm") * values(written, "phantom")
    scale = torch.vdot(expected.flatten(), images.flatten()) / expected.norm() ** 2
    assert (images - scale * expected).norm() < 1e-5 * images.norm()


def test_its_package_reads_the_same_lines(written: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    dataset = ismrmrd.Dataset(str(written), "dataset", create_if_needed=False)
    theirs = [dataset.read_acquisition(k) for k in range(dataset.number_of_acquisitions())]
    imaging = [a for a in theirs if not (a.isFlagSet(19) or a.isFlagSet(20))]
    scan = read_ismrmrd(written)
    np.testing.assert_array_equal(scan.kspace, np.stack([a.data for a in imaging], 1))
    for name, ours in scan.counters.items():
        assert ours.tolist() == [getattr(a.idx, name) for a in imaging]


def test_what_its_package_writes_is_read(tmp_path: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    rng = np.random.default_rng(0)
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=True)
    space = (
        "<matrixSize><x>6</x><y>4</y><z>1</z></matrixSize>"
        "<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm>"
    )
    spaces = f"<encodedSpace>{space}</encodedSpace><reconSpace>{space}</reconSpace>"
    dataset.write_xml_header(
        '<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><encoding>'
        f"{spaces}<trajectory>spiral</trajectory></encoding></ismrmrdHeader>".encode()
    )
    written: list[Any] = []
    for number in range(3):
        data = rng.standard_normal((2, 6)) + 1j * rng.standard_normal((2, 6))
        line = ismrmrd.Acquisition.from_array(data.astype(np.complex64), rng.random((6, 2), "f4"))
        line.idx.slice = number
        dataset.append_acquisition(line)
        written.append(line)
    dataset.close()
    scan = read_ismrmrd(tmp_path / "a.h5")
    np.testing.assert_array_equal(scan.kspace, np.stack([a.data for a in written], 1))
    assert scan.trajectory is not None
    np.testing.assert_array_equal(scan.trajectory, np.stack([a.traj for a in written]))
    assert scan.counters["slice"].tolist() == [0, 1, 2]


def test_its_package_reads_what_is_written(tmp_path: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    kspace = torch.randn(3, 2, 5, 6, dtype=torch.complex64)
    scan = IsmrmrdScan.from_grid(kspace, (60, 100, 20), dwell_time=2.5)
    write_ismrmrd(tmp_path / "a.h5", scan)
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=False)
    header = ismrmrd.xsd.CreateFromDocument(dataset.read_xml_header())
    (encoding,) = header.encoding
    size, fov = encoding.encodedSpace.matrixSize, encoding.reconSpace.fieldOfView_mm
    assert (size.x, size.y, size.z, fov.x, fov.y, fov.z) == (6, 5, 2, 60, 100, 20)
    assert encoding.trajectory.value == "cartesian"
    assert dataset.number_of_acquisitions() == 10
    for number in range(10):
        line = dataset.read_acquisition(number)
        z, y = line.idx.kspace_encode_step_2, line.idx.kspace_encode_step_1
        np.testing.assert_array_equal(line.data, kspace[:, z, y])
        assert (line.center_sample, line.sample_time_us) == (3, 2.5)
        assert [*line.read_dir] == [1, 0, 0] and [*line.slice_dir] == [0, 0, 1]
        assert line.active_channels == 3 and line.isChannelActive(2)
        assert not line.isChannelActive(3)


def test_the_image_of_its_own_reconstruction_is_read(written: Path) -> None:
    """A fully sampled head; the program writes the image into the same file."""
    program = "ismrmrd_recon_cartesian_2d"
    whole = written.with_name("whole.h5")
    for command in ([GENERATOR, "-o", str(whole), "-m", "48", "-n", "0"], [program, str(whole)]):
        subprocess.run(command, check=True, capture_output=True)
    images = read_ismrmrd_images(whole)
    assert images.data.shape == (1, 1, 1, 48, 48)
    assert images.header["field_of_view"].tolist() == [[300, 300, 6]]
    kspace, _ = read_ismrmrd(whole).on_grid()
    ours = FFT(2, centered=True).H(kspace)[..., 24:72].norm(dim=0)
    theirs = images.data[0, 0, 0]
    assert (ours / ours.norm() - theirs / theirs.norm()).norm() < 1e-5


AFFINE = torch.tensor(
    [[0, -2.0, 0, 5], [1.5, 0, 0, -3], [0, 0, 3, 1.5], [0, 0, 0, 1]], dtype=torch.float64
)
LEFT_AND_BACK = np.diag([-1.0, -1.0, 1.0])


def head(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a volume (Z, Y, X) of 3 x 4 x 5."""
    numbers = torch.arange(60).view(3, 4, 5)
    return (numbers * (1 - 2j) if dtype.is_complex else numbers).to(dtype)


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32, torch.complex64, torch.complex128])
def test_its_package_reads_images_that_are_written(tmp_path: Path, dtype: torch.dtype) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    volume = head(dtype)
    images = IsmrmrdImages.from_volume(volume[None, None].repeat(2, 1, 1, 1, 1), AFFINE)
    write_ismrmrd_images(tmp_path / "a.h5", images)
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=False)
    assert dataset.number_of_images("image_0") == 2
    for number in range(2):
        theirs = dataset.read_image("image_0", number)
        np.testing.assert_array_equal(theirs.data[0], volume)
        assert theirs.data.dtype == volume.numpy().dtype and [*theirs.matrix_size] == [5, 4, 3]
        assert [*theirs.field_of_view] == [7.5, 8, 9] and theirs.image_index == number + 1
        steps = np.stack([theirs.read_dir, theirs.phase_dir, theirs.slice_dir], 1) * [1.5, 2, 3]
        first = np.array(theirs.position) - steps @ [2, 2, 1]
        np.testing.assert_allclose(LEFT_AND_BACK @ steps, AFFINE[:3, :3])
        np.testing.assert_allclose(LEFT_AND_BACK @ first, AFFINE[:3, 3])


def test_images_that_its_package_writes_are_read(tmp_path: Path) -> None:
    """Its from_array takes the order (channels, z, y, x)."""
    ismrmrd = pytest.importorskip("ismrmrd")
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=True)
    data = np.arange(120, dtype=np.uint16).reshape(2, 3, 4, 5)
    for number in range(2):
        image = ismrmrd.Image.from_array(data + number, field_of_view=(10, 8, 6), slice=number)
        image.read_dir, image.phase_dir, image.slice_dir = (1, 0, 0), (0, 1, 0), (0, 0, 1)
        image.position = (1, 2, 3)
        image.meta = {"name": "a < b"}
        dataset.append_image("image_0", image)
    dataset.close()
    images = read_ismrmrd_images(tmp_path / "a.h5", where={"slice": 1})
    np.testing.assert_array_equal(images.data[0], data + 1)
    assert ismrmrd.Meta.deserialize(images.attributes[0]) == {"name": "a < b"}
    affine = images.affine()
    assert affine.diagonal().tolist() == [-2, -2, 2, 1]
    assert (affine @ torch.tensor([2.0, 2, 1, 1]).double())[:3].tolist() == [-1, -2, 3]


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_simpleitk_finds_the_same_places(tmp_path: Path, name: str) -> None:
    """The image of a scan as NIfTI; SimpleITK's axes point to the left and the back."""
    itk = pytest.importorskip("SimpleITK")
    images = IsmrmrdImages.from_volume(head(), AFFINE)
    write_nifti(tmp_path / name, images.data[0, 0].permute(2, 1, 0), images.affine())
    theirs = itk.ReadImage(str(tmp_path / name))
    assert theirs.GetSize() == (5, 4, 3)
    np.testing.assert_array_equal(itk.GetArrayFromImage(theirs), head())
    for index in np.ndindex(5, 4, 3):
        at = AFFINE.numpy() @ [*index, 1]
        result = theirs.TransformIndexToPhysicalPoint(index)
        np.testing.assert_allclose(LEFT_AND_BACK @ result, at[:3], atol=1e-5)


def test_nibabel_finds_the_same_places(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    images = IsmrmrdImages.from_volume(head(), AFFINE)
    write_nifti(tmp_path / "a.nii", images.data[0, 0].permute(2, 1, 0), images.affine())
    theirs = nibabel.load(tmp_path / "a.nii")
    np.testing.assert_allclose(theirs.affine, AFFINE, atol=1e-6)
    assert nibabel.aff2axcodes(theirs.affine) == ("A", "L", "S")
    np.testing.assert_array_equal(theirs.get_fdata()[4, 3, 2], head()[2, 3, 4])


def test_its_package_reads_lines_of_phase_correction(tmp_path: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    scan = IsmrmrdScan.from_grid(torch.randn(2, 4, 6, dtype=torch.complex64), (60, 40, 5))
    turned = torch.tensor([False, True, False])
    three = replace(
        IsmrmrdScan.from_grid(torch.randn(2, 3, 8, dtype=torch.complex64), (60, 40, 5)),
        is_reversed=turned,
        encoding=scan.encoding,
        dwell_time=2.5,
    )
    write_ismrmrd(tmp_path / "a.h5", scan, others={"phase correction": three})
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=False)
    lines = [dataset.read_acquisition(k) for k in range(dataset.number_of_acquisitions())]
    is_reference = [a.isFlagSet(ismrmrd.ACQ_IS_PHASECORR_DATA) for a in lines]
    assert is_reference == [True] * 3 + [False] * 4
    assert [a.isFlagSet(ismrmrd.ACQ_IS_REVERSE) for a in lines[:3]] == turned.tolist()
    assert [a.sample_time_us for a in lines] == [2.5] * 3 + [1.0] * 4
    np.testing.assert_array_equal(three.kspace, np.stack([a.data for a in lines[:3]], 1))
    np.testing.assert_array_equal(scan.kspace, np.stack([a.data for a in lines[3:]], 1))


def test_lines_of_phase_correction_of_its_package_are_written_again(tmp_path: Path) -> None:
    ismrmrd = pytest.importorskip("ismrmrd")
    scan = IsmrmrdScan.from_grid(torch.randn(2, 4, 6, dtype=torch.complex64), (60, 40, 5))
    write_ismrmrd(tmp_path / "a.h5", scan)
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", create_if_needed=False)
    rng = np.random.default_rng(0)
    for number in range(3):
        data = rng.standard_normal((2, 7)) + 1j * rng.standard_normal((2, 7))
        line = ismrmrd.Acquisition.from_array(data.astype(np.complex64))
        line.setFlag(ismrmrd.ACQ_IS_PHASECORR_DATA)
        if number == 1:
            line.setFlag(ismrmrd.ACQ_IS_REVERSE)
        line.acquisition_time_stamp, line.user_float[2] = 100 + number, number / 4
        line.sample_time_us = 2.5
        dataset.append_acquisition(line)
    dataset.close()
    three = read_ismrmrd(tmp_path / "a.h5", lines="phase correction")
    write_ismrmrd(tmp_path / "b.h5", scan, others={"phase correction": three})
    again = read_ismrmrd(tmp_path / "b.h5", lines="phase correction")
    assert torch.equal(again.kspace, three.kspace)
    assert again.is_reversed.tolist() == [False, True, False]
    assert again.details["acquisition_time_stamp"].tolist() == [100, 101, 102]
    assert again.details["user_float"][:, 2].tolist() == [0.0, 0.25, 0.5]
