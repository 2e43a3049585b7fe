"""Readers, memmap beyond 2^31 bytes, coil maps, phantoms and masks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import linops_imaging as imaging
import memmap
from linops_imaging import coil_maps, io, masks, phantoms

Function = Callable[[int], dict[str, Any]]
COILS, SIDE = 4, 256


def complex_data(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def error(result: Tensor, expected: Tensor) -> float:
    from checks import difference

    return difference(result, expected.to(torch.complex128))


def cfl(n: int) -> dict[str, Any]:
    x = complex_data(n // 4096, 64, 64)
    with tempfile.TemporaryDirectory() as folder:
        io.write_cfl(Path(folder, "x"), x)
        assert torch.equal(io.read_cfl(Path(folder, "x")), x)
    return {"bytes": x.nbytes}


def nifti(n: int) -> dict[str, Any]:
    x, affine = torch.randn(n // 4096, 64, 64), torch.eye(4, dtype=torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        io.write_nifti(Path(folder, "x.nii"), x, affine)
        result, _ = io.read_nifti(Path(folder, "x.nii"))
    assert torch.equal(result, x)
    return {"bytes": x.nbytes}


def ismrmrd(n: int) -> dict[str, Any]:
    x = complex_data(COILS, n // (COILS * 1024), 1, 1024)[:, :, 0]
    scan = io.IsmrmrdScan.from_grid(x[:, None], (256.0, 256.0, 5.0))
    with tempfile.TemporaryDirectory() as folder:
        io.write_ismrmrd(Path(folder, "x.h5"), scan)
        result = io.read_ismrmrd(Path(folder, "x.h5"))
    assert torch.equal(result.kspace, scan.kspace)
    return {"bytes": x.nbytes}


def ismrmrd_images(n: int) -> dict[str, Any]:
    x = torch.randn(n // 4096, 64, 64)
    images = io.IsmrmrdImages.from_volume(x, torch.eye(4, dtype=torch.float64))
    scan = io.IsmrmrdScan.from_grid(complex_data(COILS, 1, 64, 64), (256.0, 256.0, 5.0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.h5")
        io.write_ismrmrd(path, scan)
        (group,) = io.ismrmrd_groups(path)
        assert torch.equal(io.read_ismrmrd(path, **group.selection).kspace, scan.kspace)
        io.write_ismrmrd_images(Path(folder, "images.h5"), images)
        result = io.read_ismrmrd_images(Path(folder, "images.h5"))
    assert torch.equal(result.data, images.data)
    return {"bytes": x.nbytes}


def fastmri(n: int) -> dict[str, Any]:
    import h5py

    x = complex_data(n // (COILS * SIDE**2), COILS, SIDE, SIDE)
    with tempfile.TemporaryDirectory() as folder:
        io.write_ismrmrd(
            Path(folder, "header.h5"), io.IsmrmrdScan.from_grid(x[:1, :, 0], (256.0, 256.0, 5.0))
        )
        with h5py.File(Path(folder, "header.h5")) as file:
            header = file["dataset/xml"][0]
        with h5py.File(Path(folder, "x.h5"), "w") as file:
            file["kspace"], file["ismrmrd_header"] = x.numpy(), header
        scan = io.read_fastmri(Path(folder, "x.h5"))
        some = io.read_fastmri(Path(folder, "x.h5"), [1])
    assert torch.equal(scan.kspace, x) and torch.equal(some.kspace, x[1:2])
    return {"bytes": x.nbytes}


def sparse(n_bytes: int, folder: str) -> Tensor:
    """Return the bytes of a file that has no blocks on the disk until they are written."""
    path = Path(folder, "sparse")
    with path.open("wb") as file:
        file.truncate(n_bytes)
    return torch.from_file(str(path), shared=True, size=n_bytes, dtype=torch.uint8)


def of_views(n: int) -> dict[str, Any]:
    """Views of 6 GiB, which no memory holds: places beyond 2^31 and 2^32 bytes."""
    total = 6 * 2**30
    with tempfile.TemporaryDirectory() as folder:
        x = sparse(total, folder)
        first, last = x[: 2**32 + 8], x[2**32 : 2**32 + 16]
        assert memmap.overlaps(first, last) and not memmap.overlaps(x[: 2**32], last)
        assert memmap.union_nbytes([first, last]) == 2**32 + 16
        assert memmap.overlapping_pairs([x[: 2**31], last, first]) == [(0, 2), (1, 2)]
        odd, even = x[1::2], x[::2]
        assert not memmap.overlaps(odd, even)
        assert memmap.union_nbytes([odd, even]) == total
        assert memmap.footprint(odd).nbytes == total // 2
        rows = x.view(-1, 2**16)
        assert not memmap.overlaps(rows[:, : 2**15], rows[:, 2**15 :])
        assert memmap.overlaps(rows[-1], rows[:, 5]) and memmap.same_storage(first, last)
        assert not memmap.has_internal_overlap(rows.T)
        assert memmap.has_internal_overlap(x[:1].expand(2**33))
        assert memmap.tensor_memory_span(last) == (2**32, 2**32 + 15)
        view = memmap.view_of(last)
        assert memmap.overlaps(view, first)
    return {"bytes": total}


def of_copies(n: int) -> dict[str, Any]:
    """A small view of a large storage: packed copies have the view's size."""

    class Small(torch.nn.Module):
        def __init__(self, x: Tensor) -> None:
            super().__init__()
            self.x: Tensor
            self.register_buffer("x", x[2**31 : 2**31 + 64])
            self.register_buffer("y", x[2**31 + 32 : 2**31 + 96])

    with tempfile.TemporaryDirectory() as folder:
        module = Small(sparse(6 * 2**30, folder).view(torch.float16))
        module.x.fill_(3)
        copied: Any
        for copied in (
            memmap.memory_aware_deepcopy(module, pack=True),
            memmap.memory_aware_to(module, dtype=torch.float32, pack=True),
        ):
            copied.y.fill_(5)
            assert copied.x.tolist() == [3] * 32 + [5] * 32
            assert copied.x.untyped_storage().nbytes() <= 96 * 4
        report = memmap.MemReporter(module)
        assert "x" in str(report) and memmap.ModuleMemoryMap(module) is not None
        path = Path(folder, "checkpoint.pt")
        large = torch.zeros(n // 16)
        torch.save({"a": large[5:50]}, path)
        memmap.compact_checkpoint(path, Path(folder, "small.pt"))
        assert Path(folder, "small.pt").stat().st_size < 10**4 < path.stat().st_size
        assert memmap.diff_reports(report, report) is not None
    return {}


def maps(n: int) -> dict[str, Any]:
    side = int((n // COILS) ** 0.5) // 2 * 2
    generator = torch.Generator().manual_seed(0)
    series = phantoms.CoilSeries(complex_data(COILS, 5, 5).to(torch.complex128))
    image = phantoms.shepp_logan((side, side))
    images = image * series.on_grid((side, side)).to(torch.complex64)
    noise = torch.randn(COILS, 10**5, dtype=torch.complex64, generator=generator)
    covariance = coil_maps.noise_covariance(noise)
    white, _ = coil_maps.prewhiten(images, covariance)
    fewer, _ = coil_maps.compress_coils(images, 2)
    assert white.shape == images.shape and fewer.shape == (2, side, side)
    grid = torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(images, (-2, -1))), (-2, -1))
    del white, fewer
    errors = {}
    for name, result in (
        ("espirit", coil_maps.espirit(grid, "C", ("Nx", "Ny"), crop=0.0)),
        ("walsh", coil_maps.walsh(images, "C", ("Nx", "Ny"))),
    ):
        inside = image.abs() > 0.5
        explained = (result.conj() * images).sum(0).abs()[inside]
        errors[name] = float((explained / images.norm(dim=0)[inside] - 1).abs().mean())
    assert max(errors.values()) < 0.02, errors
    return errors


def pictures(n: int) -> dict[str, Any]:
    side = int(n**0.5) // 2 * 2
    image = phantoms.shepp_logan((side, side))
    small = phantoms.shepp_logan((side // 2, side // 2))
    means = float(image.double().mean()), float(small.double().mean())
    assert abs(means[0] / means[1] - 1) < 1e-2, means
    locs = imaging.trajectories.radial_2d(100, 10**4, side)
    kspace = phantoms.shepp_logan_kspace(locs, (side, side))
    middle = kspace.abs().flatten().max()
    sinogram = phantoms.shepp_logan_sinogram(torch.linspace(0, 3, n // side), side, side)
    sums = sinogram.double().sum(-1)
    assert float(sums.std() / sums.mean()) < 1e-2 and torch.isfinite(middle)
    return {"mean": means[0]}


def of_masks(n: int) -> dict[str, Any]:
    side = int(n**0.5) // 2 * 2
    fractions = {
        "poisson_disc": masks.poisson_disc((side // 4, side // 4), 4.0),
        "variable_density": masks.variable_density((side, side), 4.0),
    }
    result = {name: float(mask.double().mean()) for name, mask in fractions.items()}
    assert all(abs(fraction - 0.25) < 0.01 for fraction in result.values()), result
    region = masks.calibration_region((side, side), 24)
    assert int(region.sum()) == 24**2
    return result


FUNCTIONS: Mapping[str, Function] = {
    "read_cfl write_cfl": cfl,
    "read_nifti write_nifti": nifti,
    "read_ismrmrd write_ismrmrd": ismrmrd,
    "ismrmrd_groups IsmrmrdImages read_ismrmrd_images write_ismrmrd_images": ismrmrd_images,
    "FastmriScan read_fastmri": fastmri,
    "overlaps union_nbytes overlapping_pairs footprint same_storage has_internal_overlap "
    "tensor_memory_span view_of": of_views,
    "memory_aware_deepcopy memory_aware_to MemReporter ModuleMemoryMap compact_checkpoint "
    "diff_reports": of_copies,
    "espirit walsh noise_covariance prewhiten compress_coils CoilSeries": maps,
    "shepp_logan shepp_logan_kspace shepp_logan_sinogram": pictures,
    "poisson_disc variable_density calibration_region": of_masks,
}


def public() -> set[str]:
    """Return the public functions of these modules."""
    modules: list[Any] = [io, coil_maps, phantoms, masks, memmap]
    names = {name for module in modules for name in module.__all__}
    kinds = ("Error", "Warning", "Report", "Diff", "Footprint", "Layout", "Group", "View")
    others = {"Encoding", "IsmrmrdScan", "html_table"}
    return {name for name in names if not name.endswith(kinds)} - others
