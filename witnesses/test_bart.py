"""BART's files, Fourier transform, phantom and coil maps: Debian's package ``bart``."""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Dense, Identity
from linops_imaging import NUFFT, phantoms, trajectories
from linops_imaging.coil_maps import espirit
from linops_imaging.io import read_cfl, write_cfl
from linops_solvers import conjugate_gradients

pytestmark = pytest.mark.skipif(not shutil.which("bart"), reason="bart is not installed")


def bart(folder: Path, *words: object, **inputs: Tensor) -> Tensor:
    """Run a command of BART; words that name an input stand for its file."""
    for name, value in inputs.items():
        write_cfl(folder / name, value)
    command = ["bart", *(str(folder / str(w)) if w in inputs else str(w) for w in words)]
    subprocess.run([*command, str(folder / "out")], check=True, capture_output=True)
    return read_cfl(folder / "out")


def test_the_centred_orthonormal_transform(tmp_path: Path) -> None:
    x = torch.randn(24, 18, 3, dtype=torch.complex64)
    result = bart(tmp_path, "fft", "-u", 3, "x", x=x)
    expected = FFT(2, centered=True)(x.movedim(-1, 0)).movedim(0, -1)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-4)


def test_the_kspace_of_the_phantom(tmp_path: Path) -> None:
    """BART's head is turned by a quarter of a turn, and in another scale."""
    size = 64
    locs = trajectories.radial_2d(13, 32, size, dtype=torch.float64)
    x, y = locs.unbind(-1)
    turned = torch.stack([-y, x, torch.zeros_like(x)])
    result = bart(tmp_path, "phantom", "-k", "-t", "traj", traj=turned.mT.contiguous())
    result = result[0].mT.to(torch.complex128)
    expected = phantoms.shepp_logan_kspace(locs, [size, size])
    scale = torch.vdot(expected.flatten(), result.flatten()) / expected.abs().square().sum()
    assert (result - scale * expected).norm() < 1e-5 * result.norm()


def test_a_picture_of_the_phantom(tmp_path: Path) -> None:
    result = bart(tmp_path, "phantom", "-x", 96).real
    ours = phantoms.shepp_logan([96, 96])
    turned = ours.T.flip(0)  # as above
    different = [
        ((result - other).abs() > 0.05).float().mean() for other in (turned, turned.roll(1, 0))
    ]
    assert min(different) < 0.03


@pytest.mark.parametrize("options", [{}, {"n_calibration": 20, "kernel_size": 5, "crop": 0.9}])
def test_espirit_is_ecalib(tmp_path: Path, options: dict[str, float]) -> None:
    """Up to a phase, where the largest eigenvalue is far from the next: BART iterates."""
    kspace = bart(tmp_path, "phantom", "-k", "-s8", "-x", 128)
    flags = {"n_calibration": "-r", "kernel_size": "-k", "crop": "-c"}
    words = [word for name, value in options.items() for word in (flags[name], value)]
    theirs = bart(tmp_path, "ecalib", "-m1", *words, "kspace", kspace=kspace)
    data, theirs = (x[:, :, 0].movedim(-1, 0) for x in (kspace, theirs))
    ours, values = espirit(data, "C", ("Kx", "Ky"), n_maps=2, return_eigenvalues=True, **options)  # type: ignore[call-overload]
    support = theirs.norm(dim=0) > 0
    assert (support != (ours[0].norm(dim=0) > 0)).float().mean() < 1e-3
    agreement = (ours[0].conj() * theirs).sum(0).abs()
    is_clear = support & (values[0] - values[1] > 0.3)
    assert is_clear.sum() > 0.8 * support.sum()
    assert agreement[is_clear].min() > 1 - 1e-4
    assert (agreement[support] > 1 - 1e-3).float().mean() > 0.95


def test_espirit_of_few_lines_is_ecalib(tmp_path: Path) -> None:
    kspace = bart(tmp_path, "phantom", "-k", "-s8", "-x", 128)
    theirs = bart(tmp_path, "ecalib", "-m1", "-r", 8, "-c", 0, "kspace", kspace=kspace)
    data, theirs = (x[:, :, 0].movedim(-1, 0) for x in (kspace, theirs))
    ours = espirit(data, "C", ("Kx", "Ky"), n_calibration=8, crop=0)
    strength = FFT(2, centered=True).H(data).norm(dim=0)
    agreement = (ours.conj() * theirs).sum(0).abs()[strength > 0.05 * strength.max()]
    assert agreement.mean() > 0.995  # BART iterates


def as_bart(locs: Tensor) -> Tensor:
    """Return a trajectory (..., 2) as BART has it: (3, readout, spokes)."""
    return torch.cat([locs, torch.zeros_like(locs[..., :1])], -1).permute(2, 1, 0).contiguous()


def test_the_non_uniform_transform(tmp_path: Path) -> None:
    """Also in scale and sign, but for the edge of k-space, where BART's differs by some percent."""
    size = 48
    locs = 0.9 * trajectories.radial_2d(40, 96, size, dtype=torch.float64)
    A = NUFFT(locs, (size, size), ("S", "R"), tol=1e-5)
    x = torch.randn(size, size, dtype=torch.complex64)
    y = A(x)
    result = bart(tmp_path, "nufft", "traj", "x", traj=as_bart(locs), x=x)[0].mT
    assert (result - y).norm() < 2e-3 * result.norm()
    values = y.mT.unsqueeze(0).to(torch.complex64)
    words = ("nufft", "-a", "-d", f"{size}:{size}:1", "traj", "y")
    back = bart(tmp_path, *words, traj=as_bart(locs), y=values)
    assert (back - A.H(y)).norm() < 2e-3 * back.norm()


def test_a_radial_reconstruction(tmp_path: Path) -> None:
    size, n_coils = 48, 4
    locs = 0.9 * trajectories.radial_2d(90, 96, size, dtype=torch.float64)
    coils = phantoms.CoilSeries.around(n_coils)
    maps = coils.on_grid([size, size]).to(torch.complex128)
    A = NUFFT(locs, (size, size), ("S", "R"), batch_shape=("C",), tol=1e-5, toeplitz=True)
    sense = A @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    kspace = phantoms.shepp_logan_kspace(locs, [size, size], coils).to(torch.complex64)

    result = bart(
        tmp_path, "pics", "-l2", "-r", 0.1, "-w", 1, "-i", 60, "-t", "traj", "y", "maps",
        traj=as_bart(locs), y=kspace.permute(2, 1, 0).unsqueeze(0),
        maps=maps.permute(1, 2, 0).unsqueeze(2).to(torch.complex64),
    )  # fmt: skip
    normal = sense.N + 0.1 * Identity(sense.ishape)
    expected = conjugate_gradients(normal, sense.H(kspace), max_num_iters=60, gtol=1e-6, ltol=0)
    assert (result.squeeze() - expected).norm() < 2e-3 * expected.norm()
