"""Every public function works with data on the CPU under another default device.

``torch.set_default_device("cuda")`` is common; the meta device stands in for it on any machine.
Operators, solvers and proximal maps have a law of it in their own tests.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import linops_core as core
import linops_imaging as imaging
import linops_split as split
from linops_core import NamedLinop
from linops_imaging import coil_maps, interop, io, masks, mri, phantoms, trajectories
from linops_multigpu import BatchSpec, create_batched_linop
from torchlinops import recon


def data(*lengths: int, dtype: torch.dtype = torch.complex128) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    return torch.randn(lengths, dtype=dtype, generator=generator, device="cpu")


ONE = torch.eye(4, dtype=torch.complex128)
M = ONE + 0.1 * data(4, 4)
SPD = M.mH @ M
Y, X2 = data(4), data(6, 6)
LOCS = 4 * torch.rand(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 2
TRANSFORM = imaging.NUFFT(LOCS, (6, 6), ("K",))
HALF_CIRCLE = torch.arange(12, dtype=torch.float64) * (math.pi / 12)
ANGLES = torch.arange(6, dtype=torch.float64) * 0.5
COILS = phantoms.CoilSeries.around(4)
IMAGES = COILS.on_grid((24, 24)) * phantoms.shepp_logan((24, 24))
KSPACE = core.FFT(2, centered=True)(IMAGES)
SPOKES: Any = {"locs": trajectories.radial_2d(30, 32, (16, 16)), "grid_size": (16, 16)}
COIL_SCAN: Any = {"kspace": KSPACE, "dims": ("C", "Kx", "Ky"), "max_num_iters": 2, "tol": 0}


def matrix(weight: Tensor = M) -> NamedLinop:
    return core.Dense(weight, ("N1", "N"), ("N",), ("N1",))


def applied(A: NamedLinop, *lengths: int) -> list[Tensor]:
    y = A(data(*lengths))
    return [y, A.H(y), A.N(data(*lengths)), A.conj()(data(*lengths)), A.H.N(y)]


def system() -> NamedLinop:
    """Return a Hermitian, positive definite operator."""
    return core.Diagonal(data(4).abs() + 1, ("N",))


def scan() -> io.IsmrmrdScan:
    """Return a scan of four Cartesian lines of three coils."""
    size, fov = (4, 4, 1), (1.0, 1.0, 1.0)
    zeros = torch.zeros(4, dtype=torch.int64)
    steps = dict.fromkeys(
        ["kspace_encode_step_2", "repetition", "set", "phase", "contrast", "average", "slice"],
        zeros,
    )
    return io.IsmrmrdScan(
        kspace=data(3, 4, 4).to(torch.complex64),
        counters={**steps, "kspace_encode_step_1": torch.arange(4)},
        centre_sample=zeros + 2,
        discarded=torch.zeros(4, 2, dtype=torch.int64),
        is_reversed=zeros.bool(),
        trajectory=None,
        noise=None,
        dwell_time=1.0,
        noise_dwell_time=None,
        encoding=io.Encoding("cartesian", size, fov, size, fov, (2, 0)),
        left_out={},
        header="",
    )


SCAN = scan()


def scan_file(path: Path) -> Path:
    """Write the same with the ismrmrd package."""
    space = (
        "<matrixSize><x>4</x><y>4</y><z>1</z></matrixSize>"
        "<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm>"
    )
    header = (
        '<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD"><experimentalConditions>'
        "<H1resonanceFrequency_Hz>1</H1resonanceFrequency_Hz></experimentalConditions><encoding>"
        f"<encodedSpace>{space}</encodedSpace><reconSpace>{space}</reconSpace><encodingLimits/>"
        "<trajectory>cartesian</trajectory></encoding></ismrmrdHeader>"
    )
    ismrmrd = pytest.importorskip("ismrmrd")
    file = ismrmrd.Dataset(str(path / "a.h5"))
    file.write_xml_header(header.encode())
    for step in range(4):
        line = ismrmrd.Acquisition.from_array(np.full((2, 4), step + 1j, np.complex64))
        line.center_sample, line.idx.kspace_encode_step_1 = 2, step
        file.append_acquisition(line)
    file.close()
    return path / "a.h5"


def write_ismrmrd(path: Path) -> None:
    pytest.importorskip("h5py")
    io.write_ismrmrd(path, io.IsmrmrdScan.from_grid(KSPACE, (1, 1, 1)))


def ismrmrd_images(path: Path) -> io.IsmrmrdImages:
    pytest.importorskip("h5py")
    images = io.IsmrmrdImages.from_volume(X2, torch.eye(4, device="cpu"))
    io.write_ismrmrd_images(path, images)
    return io.read_ismrmrd_images(path)


def fastmri(path: Path) -> io.FastmriScan:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["kspace"] = np.ones((2, 3, 4, 4), "c8")
        file["ismrmrd_header"] = io.IsmrmrdScan.from_grid(KSPACE, (1, 1, 1)).header
    return io.read_fastmri(path)


def write_nifti(path: Path) -> None:
    pytest.importorskip("nibabel")
    io.write_nifti(path, X2, torch.eye(4, device="cpu"))


def cfl(folder: Path) -> Path:
    io.write_cfl(folder / "a", X2)
    return folder / "a"


def nifti(path: Path) -> Path:
    nibabel = pytest.importorskip("nibabel")
    nibabel.save(nibabel.Nifti1Image(np.ones((2, 3, 4), "f4"), np.eye(4)), path / "a.nii")
    return path / "a.nii"


CALLS: dict[str, Callable[[Path], object]] = {
    "dottest": lambda _: core.dottest(system(), like=Y),
    "inner": lambda _: core.inner(Y, Y),
    "is_adjoint": lambda _: core.is_adjoint(system(), Y, Y),
    "from_scipy": lambda _: applied(core.from_scipy(M.numpy(), ("N",), ("M",)), 4),
    "rigid_motion": lambda _: applied(mri.rigid_motion(TRANSFORM, LOCS, LOCS[:, 0], ("K",)), 6, 6),
    "batch_linop": lambda _: applied(split.batch_linop(matrix(), {"N1": 2}), 4),
    "create_batched_linop": lambda _: applied(
        create_batched_linop(matrix(), BatchSpec({"N": 2}, ["cpu"], "cpu")), 4
    ),
    "linear_function": lambda _: core.linear_function(lambda x: 2 * x, lambda y: 2 * y, Y),
    "density_compensation": lambda _: imaging.density_compensation(LOCS, (6, 6)),
    "fbp": lambda _: imaging.fbp(
        data(12, 8, dtype=torch.float64),
        imaging.ParallelBeam(HALF_CIRCLE, 8, 6),
    ),
    "fdk": lambda _: imaging.fdk(
        data(12, 4, 8, dtype=torch.float64),
        imaging.ConeBeam(2 * HALF_CIRCLE, (4, 8), 6, 20.0, 10.0),
    ),
    "toeplitz_kernel": lambda _: imaging.toeplitz_kernel(imaging.NUFFT(LOCS, (6, 6), ("K",))),
    "compress_coils": lambda _: coil_maps.compress_coils(KSPACE, 2),
    "sense": lambda _: (
        recon.sense(**COIL_SCAN),
        recon.sense(data(3, 30, 32), ("C", "K1", "K2"), data(3, 16, 16), **SPOKES),
    ),
    "l1_wavelet": lambda _: recon.l1_wavelet(**COIL_SCAN, wavelet="haar"),
    "total_variation": lambda _: recon.total_variation(**COIL_SCAN),
    "low_rank_plus_sparse": lambda _: recon.low_rank_plus_sparse(
        **COIL_SCAN | {"kspace": KSPACE[:, None], "dims": ("C", "T", "Kx", "Ky")}
    ),
    "espirit": lambda _: coil_maps.espirit(
        KSPACE, "C", ("Kx", "Ky"), n_calibration=12, kernel_size=4
    ),
    "noise_covariance": lambda _: coil_maps.noise_covariance(KSPACE),
    "prewhiten": lambda _: coil_maps.prewhiten(KSPACE, coil_maps.noise_covariance(KSPACE)),
    "walsh": lambda _: coil_maps.walsh(KSPACE, "C", ("Nx", "Ny")),
    "estimate_phase": lambda _: imaging.epi.estimate_phase(
        data(2, 3, 4), torch.tensor([False, True, False], device="cpu")
    ),
    "fit_motion": lambda _: mri.fit_motion(TRANSFORM, X2, TRANSFORM(X2), ("K",), max_num_iters=2),
    "write_cfl": lambda path: io.write_cfl(path / "a", X2),
    "read_cfl": lambda path: io.read_cfl(cfl(path)),
    "read_nifti": lambda path: io.read_nifti(nifti(path)),
    "read_ismrmrd": lambda path: io.read_ismrmrd(scan_file(path)).on_grid(),
    "IsmrmrdScan": lambda _: (SCAN.on_grid(), io.IsmrmrdScan.from_grid(KSPACE, (1, 1, 1)).affine()),
    "write_ismrmrd": lambda path: write_ismrmrd(path / "b.h5"),
    "read_fastmri": lambda path: fastmri(path / "b.h5").crop((2, 2))(KSPACE[..., :4, :4]),
    "ismrmrd_groups": lambda path: str(io.ismrmrd_groups(scan_file(path))),
    "write_ismrmrd_images": lambda path: ismrmrd_images(path / "b.h5").data,
    "read_ismrmrd_images": lambda path: ismrmrd_images(path / "b.h5").affine(),
    "write_nifti": lambda path: write_nifti(path / "b.nii"),
    "shepp_logan_kspace": lambda _: (
        phantoms.shepp_logan_kspace(LOCS, (6, 6)),
        phantoms.shepp_logan_kspace(LOCS, (6, 6), COILS),
    ),
    "shepp_logan_sinogram": lambda _: phantoms.shepp_logan_sinogram(ANGLES, 8, 6),
    "CoilSeries": lambda _: phantoms.CoilSeries(data(3, 5, 5)).on_grid((6, 6)),
    "plan_batches": lambda _: str(split.plan_batches(matrix(), 10**6, like=Y)),
    "split_linop": lambda _: [tile(Y) for tile in split.split_linop(matrix(), {"N1": 2})[0]],
}
"""Those that get tensors on the CPU; what they return is there."""

MADE: dict[str, Callable[[], object]] = {
    "calibration_region": lambda: masks.calibration_region((6, 6), 2),
    "poisson_disc": lambda: masks.poisson_disc((16, 16), 3),
    "variable_density": lambda: masks.variable_density((16, 16), 3),
    "shepp_logan": lambda: phantoms.shepp_logan((8, 8)),
    "trapezoid": lambda: imaging.epi.trapezoid(4, 4, 1.0, 1.0, 2.0, 1.0),
    "golden_angles": lambda: trajectories.golden_angles(3),
    "convert": lambda: trajectories.convert(torch.ones(3, 2), "cycles/pixel", 8),
    "radial_2d": lambda: trajectories.radial_2d(3, 8, 8),
    "radial_3d": lambda: trajectories.radial_3d(3, 8, 8),
    "spiral_2d": lambda: trajectories.spiral_2d(2, 8, 8),
}
"""Generators, which get no tensor: all that they return is on one device."""

ELSEWHERE = {
    "functions of operators": "of_adjoint assemble narrowed",
    "no tensors": "safe_globals tile_grid tile_lengths fuzzy_broadcast_to",
    "libraries that may not be installed": (
        "from_pylops to_pylops from_sigpy to_sigpy from_deepinv to_deepinv show "
        "from_finufft from_pytorch_finufft from_mrinufft from_torchkbnufft from_pynufft "
        "from_skimage from_astra from_pywt from_ptwt to_odl from_odl from_scico to_scico "
        "from_mrpro to_mrpro"
    ),
}
"""What is not run here, and why."""


def public_functions() -> set[str]:
    modules = core, imaging, io, coil_maps, imaging.epi, masks, mri, phantoms, trajectories
    return {
        name
        for module in (*modules, interop, split, recon)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }


def test_every_public_function_is_run() -> None:
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    assert public_functions() <= {*CALLS, *MADE} | elsewhere


def tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)


def check(run: Callable[[], object]) -> None:
    expected = list(tensors_in(run()))
    with torch.device("meta"):
        result = list(tensors_in(run()))
    for one, other in zip(result, expected, strict=True):
        assert one.device.type == "cpu"
        torch.testing.assert_close(one, other, equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*must be within its tolerance")  # a few steps
@pytest.mark.parametrize("name", CALLS)
def test_results_are_where_the_data_are(name: str, tmp_path: Path) -> None:
    folders = iter([tmp_path / "first", tmp_path / "second"])

    def run() -> object:
        folder = next(folders)
        folder.mkdir()
        return CALLS[name](folder)

    check(run)


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_numbers_is_on_one_device(name: str) -> None:
    with torch.device("meta"):
        result = list(tensors_in(MADE[name]()))
    assert result and len({tensor.device for tensor in result}) == 1
