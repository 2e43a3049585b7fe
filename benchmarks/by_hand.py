"""What users without a library write in torch: the ways that all libraries are compared with."""

from __future__ import annotations

from torch import Tensor
from torch.fft import fftn, fftshift, ifftn, ifftshift

GRID = (-2, -1)


def sense_normal(maps: Tensor, image: Tensor, mask: Tensor) -> Tensor:
    """Return the SENSE normal operator of an image, with centred transforms.

    Parameters
    ----------
    maps : Tensor
        Coil maps, shape (coils, ..., Nx, Ny).
    image : Tensor
        Shape (..., Nx, Ny).
    mask : Tensor
        Shape (Nx, Ny), 0 or 1, with the centre of k-space in the middle.
    """
    kspace = fftshift(fftn(ifftshift(maps * image, GRID), dim=GRID, norm="ortho"), GRID)
    back = ifftn(ifftshift(kspace * mask, GRID), dim=GRID, norm="ortho")
    coils: Tensor = fftshift(back, GRID)
    return (maps.conj() * coils).sum(0)


def five_products(weight: Tensor, x: Tensor) -> Tensor:
    """Return x times the fifth power of the weight, one product after the other."""
    for _ in range(5):
        x = weight * x
    return x
