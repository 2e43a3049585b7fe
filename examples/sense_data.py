"""Where the SENSE example gets its data: a volume with a simulated scanner, or a measured scan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from demo_input import BadInput, check_range
from torch import Tensor

from torchlinops import NamedLinop
from torchlinops.imaging import trajectories

INTERLEAVES = 8
NPY_BEGINS = b"\x93NUMPY"


@dataclass(frozen=True)
class Scan:
    """What the reconstruction starts from.

    Shapes: C coils, Nz slices of Nx by Ny pixels.
    """

    maps: Tensor
    """Coil sensitivity maps, (C, Nz, Nx, Ny), complex."""
    mask: Tensor
    """Sampled points of the centred k-space, (Nx, Ny), bool; not used where there are locations."""
    locs: Tensor | None
    """Sampled locations that are not on the grid, (K, 2), in cycles per field of view."""
    reference: Tensor | None
    """The image to be found, (Nz, Nx, Ny), where it is known."""
    kspace: Tensor | None
    """Measured k-space, (C, Nz, Nx, Ny), where there is one."""
    noise: float
    """Standard deviation of the noise to simulate; the largest pixel is 1."""
    seed: int
    description: str

    def to(self, device: torch.device) -> Scan:
        """Return the scan with its tensors on ``device``."""
        tensors = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **tensors)  # type: ignore[arg-type]

    def samples(self, A: NamedLinop) -> Tensor:
        """Return the samples (C, Nz, K): those measured, or A applied to the image, and noise."""
        if self.kspace is not None:
            return self.kspace[..., self.mask]
        assert self.reference is not None
        clean = A(self.reference)
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.randn(clean.shape, dtype=clean.dtype, generator=generator)
        return clean + self.noise * noise.to(clean.device)


def simulated_scan(
    image: Path | None,
    coils: int,
    acceleration: float,
    noise: float,
    seed: int,
    trajectory: str,
) -> Scan:
    """Return a scan of a volume with simulated coils and undersampling."""
    check_range("--coils", coils, 1, 1024)
    check_range("--acceleration", acceleration, 1, 100)
    check_range("--noise", noise, 0, 1)
    check_range("--seed", seed, 0, 2**63 - 1)
    path = example_volume() if image is None else image
    origin = "the example of nibabel, a brain" if image is None else "given"
    volume = load_volume(path)
    mask = variable_density_mask(volume.shape[1:], acceleration, seed)
    locs, sampled = locations(trajectory, volume.shape[1:], acceleration)
    if locs is None:
        sampled = f"variable-density sampling of {int(mask.sum())} in {mask.numel()} points"
    size = "x".join(map(str, volume.shape))
    return Scan(
        maps=coil_maps(coils, volume.shape),
        mask=mask,
        locs=locs,
        reference=volume,
        kspace=None,
        noise=noise,
        seed=seed,
        description=(
            f"image       {path.name}, Nz x Nx x Ny = {size}: {origin}\n"
            f"simulated   {coils} coil maps, {sampled}, noise; seed {seed}"
        ),
    )


def load_scan(kspace_file: Path, maps_file: Path, mask_file: Path) -> Scan:
    """Return a scan from files; arrays of one slice may leave its dimension out."""
    kspace, maps, mask = (load_array(path) for path in (kspace_file, maps_file, mask_file))
    if kspace.ndim not in (3, 4):
        raise BadInput(
            f"{kspace_file}: --kspace must have shape (C, Nz, Nx, Ny), or (C, Nx, Ny) for one "
            f"slice, got {kspace.shape}"
        )
    if _with_slices(maps).shape != _with_slices(kspace).shape:
        raise BadInput(
            f"{maps_file}: --maps must have the shape of --kspace, {kspace.shape}, got {maps.shape}"
        )
    if mask.shape != kspace.shape[-2:]:
        raise BadInput(
            f"{mask_file}: --mask must have shape (Nx, Ny) = {kspace.shape[-2:]}, as --kspace "
            f"has, got {mask.shape}"
        )
    others = np.unique(mask[~np.isin(mask, (0, 1))])
    if others.size:
        raise BadInput(
            f"{mask_file}: --mask must hold only 0 and 1 (1: the point is sampled), got "
            f"{', '.join(map(str, others[:3]))}{', ...' if others.size > 3 else ''}"
        )
    if not mask.any():
        raise BadInput(f"{mask_file}: --mask must have a 1 for each sampled point, got only zeros")
    mask = mask.astype(bool)
    if not kspace[..., mask].any():
        raise BadInput(
            f"{kspace_file}: --kspace must have values where --mask is 1, got only zeros there"
        )
    names = "C x Nz x Nx x Ny" if kspace.ndim == 4 else "C x Nx x Ny"
    shape = f"{names} = {' x '.join(map(str, kspace.shape))}"
    kspace, maps = _with_slices(kspace), _with_slices(maps)
    return Scan(
        maps=_scaled(maps_file, maps),
        mask=torch.from_numpy(mask),
        locs=None,
        reference=None,
        kspace=_scaled(kspace_file, np.where(mask, kspace, 0)),
        noise=0.0,
        seed=0,
        description=(
            f"k-space     {kspace_file.name}, {shape}; nothing is simulated\n"
            "units       k-space and maps are scaled to a largest magnitude of 1\n"
            "reference   none: errors are those of the samples, |A x - y| / |y|"
        ),
    )


def _with_slices(array: np.ndarray) -> np.ndarray:
    """Return an array of one slice (C, Nx, Ny) as (C, 1, Nx, Ny), and any other as it is."""
    return array[:, None] if array.ndim == 3 else array


def example_volume() -> Path:
    """Return the path of the real MRI volume that nibabel ships."""
    try:
        package = files("nibabel")
    except ImportError as error:
        raise BadInput("the example volume needs nibabel: pip install nibabel") from error
    # nibabel.testing has the path as well, but imports pytest.
    return Path(str(package)) / "tests" / "data" / "example4d.nii.gz"


def load_volume(path: Path) -> Tensor:
    """Return a volume as complex64 of shape (Nz, Nx, Ny), its largest magnitude 1."""
    if path.name.endswith((".nii", ".nii.gz")):
        array = load_nifti(path)
        is_volume, shape, rule = array.ndim >= 3, array.shape, "(Nx, Ny, Nz)"
        if is_volume:  # the first of a series, its slices first
            array = np.moveaxis(array.reshape(*shape[:3], -1)[..., 0], 2, 0)
    else:
        array = load_array(path)
        is_volume, shape, rule = array.ndim in (2, 3), array.shape, "(Nz, Nx, Ny) or (Nx, Ny)"
        array = array[None] if array.ndim == 2 else array
    if not is_volume or min(array.shape[1:]) < 8:
        raise BadInput(
            f"{path}: an image must have shape {rule} with slices of 8 x 8 pixels or more, "
            f"got {shape}"
        )
    return _scaled(path, array)


def load_nifti(path: Path) -> np.ndarray:
    """Return the array of a NIfTI file."""
    try:
        from nibabel.nifti1 import Nifti1Image
    except ImportError as error:
        raise BadInput(f"{path}: NIfTI files need nibabel: pip install nibabel") from error
    _check_file(path)
    try:
        array = np.asarray(Nifti1Image.from_filename(path).dataobj)
    except Exception as error:  # nibabel passes on what gzip, struct and numpy raise
        raise BadInput(f"{path}: not a NIfTI file that can be read: {_one_line(error)}") from error
    return _finite(path, array)


def load_array(path: Path) -> np.ndarray:
    """Return the array of a .npy file; objects in it are refused, not unpickled."""
    _check_file(path)
    try:
        with path.open("rb") as file:
            begins = file.read(len(NPY_BEGINS))
            file.seek(0)
            array = np.load(file, allow_pickle=False) if begins == NPY_BEGINS else None
    except Exception as error:  # numpy passes on what the allocator and the parser raise
        what = (
            "holds Python objects, which are not loaded; save an array of numbers with numpy.save"
            if "Object arrays cannot be loaded" in str(error)
            else f"the array does not fit into memory: {_one_line(error)}"
            if isinstance(error, MemoryError)
            else f"not a .npy file that can be read: {_one_line(error)}"
        )
        raise BadInput(f"{path}: {what}") from error
    if array is None:
        kind = "an archive (.npz?)" if begins.startswith(b"PK") else "something else"
        kind = kind if begins else "an empty file"
        raise BadInput(f"{path}: must be a .npy file, got {kind}; save one array with numpy.save")
    return _finite(path, array)


def _check_file(path: Path) -> None:
    try:
        is_file, exists = path.is_file(), path.exists()
    except OSError as error:  # the name is too long, or a folder may not be read
        raise BadInput(f"{str(path)[:80]}: {error.strerror}") from error
    if not is_file:
        raise BadInput(f"{path}: {'not a file' if exists else 'there is no such file'}")


def _one_line(error: Exception) -> str:
    """Return the beginning of a message, or the type where there is none."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def _scaled(path: Path, array: np.ndarray) -> Tensor:
    """Return the array as complex64 whose largest magnitude is 1."""
    precise = array.astype(np.complex128)  # int8 has no magnitude of -128, complex64 no 1e60
    largest = np.abs(precise).max()
    if largest == 0:
        raise BadInput(f"{path}: values must not be all zero")
    return torch.from_numpy((precise / largest).astype(np.complex64))


def _finite(path: Path, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biufc" or not array.size:
        raise BadInput(f"{path}: must hold numbers, got {array.dtype} of shape {array.shape}")
    if not np.isfinite(array).all():
        raise BadInput(
            f"{path}: values must be finite, got NaN or infinity; set to 0 what is background"
        )
    return array


def coil_maps(coils: int, shape: torch.Size) -> Tensor:
    """Return smooth maps of coils on a ring around the volume, (C, Nz, Nx, Ny).

    Each is a Gaussian around a point outside of the volume with a phase of its own. At every
    pixel the squared magnitudes add up to 1, as maps estimated from data are normalised.
    """
    z, x, y = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape), indexing="ij")
    maps = []
    for k in range(coils):
        angle = torch.tensor(2 * torch.pi * k / coils)
        height = 0.5 * (-1) ** k
        cx, cy = 1.2 * angle.cos(), 1.2 * angle.sin()
        distance = (x - cx) ** 2 + (y - cy) ** 2 + (z - height) ** 2
        phase = angle + 1.5 * (x * angle.sin() - y * angle.cos())
        maps.append(torch.polar(torch.exp(-distance / 0.8), phase))
    stacked = torch.stack(maps)
    return stacked / stacked.abs().square().sum(0).sqrt()


def variable_density_mask(shape: torch.Size, acceleration: float, seed: int) -> Tensor:
    """Return sampled points of a grid, dense in the centre of k-space; shape (Nx, Ny).

    Points are drawn independently. The probability falls off as the square of the distance to
    the corner and is 1 in a disc at the centre; it is scaled so that on average one in
    ``acceleration`` points is sampled.
    """
    x, y = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in shape), indexing="ij")
    radius = (x.square() + y.square()).sqrt()
    falling = (1 - radius / 2**0.5).clamp(min=0) ** 2
    centre = radius <= 0.08
    low, high = 0.0, float(2**40)
    for _ in range(100):  # bisection: the mean probability grows with the scale
        middle = (low + high) / 2
        mean = torch.where(centre, 1.0, (middle * falling).clamp(max=1)).mean()
        low, high = (middle, high) if mean < 1 / acceleration else (low, middle)
    probability = torch.where(centre, 1.0, (high * falling).clamp(max=1))
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(tuple(shape), generator=generator) < probability


def locations(trajectory: str, shape: torch.Size, acceleration: float) -> tuple[Tensor | None, str]:
    """Return locations (K, 2), one for ``acceleration`` grid points, and what to say of them."""
    size = max(shape)
    n_points = shape.numel() / acceleration
    if trajectory == "radial":
        n_spokes = max(1, round(n_points / size))
        locs = trajectories.radial_2d(n_spokes, size, tuple(shape))
        return locs.flatten(0, 1), f"{n_spokes} spokes of {size} points"
    if trajectory == "spiral":
        n_readout = max(2, round(n_points / INTERLEAVES))
        # Fewer turns and fewer points along them: both distances grow alike.
        turns = size / (2 * INTERLEAVES * acceleration**0.5)
        locs = trajectories.spiral_2d(INTERLEAVES, n_readout, tuple(shape), turns)
        return locs.flatten(0, 1), f"{INTERLEAVES} spirals of {n_readout} points"
    return None, ""
