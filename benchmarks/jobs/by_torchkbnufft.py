"""The jobs of radial MRI with torchkbnufft and its Toeplitz kernels; it has no solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torchkbnufft
from torch import Tensor

ARRAYS = "torch"
WITH = "torchkbnufft"
ABSENT = {
    **dict.fromkeys(
        ("sense_cartesian", "sense_volume", "calibration", "modl"),
        "it only has non-uniform Fourier transforms",
    ),
    **dict.fromkeys(
        ("wavelet", "total_variation", "low_rank_plus_sparse"), "it has no penalties and no solver"
    ),
    "off_resonance": "it has no off-resonance",
    **dict.fromkeys(("deblurring", "richardson_lucy"), "it has no convolution"),
    **dict.fromkeys(("tomography", "short_scan", "cone_beam"), "it has no X-ray transform"),
}


def solve(normal: Callable[[Tensor], Tensor], right: Tensor, steps: int) -> Tensor:
    x, residual = torch.zeros_like(right), right
    direction, square = residual, torch.vdot(right.flatten(), right.flatten()).real
    for _ in range(steps):
        image = normal(direction)
        length = square / torch.vdot(direction.flatten(), image.flatten()).real
        x, residual = x + length * direction, residual - length * image
        before, square = square, torch.vdot(residual.flatten(), residual.flatten()).real
        direction = residual + square / before * direction
    return x


def settings(maps: Tensor) -> dict[str, Any]:
    return {"im_size": tuple(maps.shape[1:]), "numpoints": 4}


def radial_frames(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    points = (2 * math.pi / maps.shape[1] * locs).flatten(1, -2).movedim(-1, 1).contiguous()
    coils = maps.expand(len(locs), *maps.shape)
    back = torchkbnufft.KbNufftAdjoint(**settings(maps))
    right = back(kspace.flatten(2), points, smaps=coils, norm="ortho")
    kernels = torchkbnufft.calc_toeplitz_kernel(points, norm="ortho", **settings(maps))
    toeplitz = torchkbnufft.ToepNufft()

    def normal(x: Tensor) -> Tensor:
        result: Tensor = toeplitz(x, kernels, smaps=coils, norm="ortho")
        return result + weight / 4 * x

    return solve(normal, right / 2, steps)  # its transform is half of the unitary one


def sense_radial(kspace: Tensor, maps: Tensor, locs: Tensor, weight: float, steps: int) -> Any:
    return radial_frames(kspace[None], maps, locs[None], weight, steps)


def subspace(
    kspace: Tensor, maps: Tensor, locs: Tensor, basis: Tensor, weight: float, steps: int
) -> Any:
    rank, n_points = basis.shape[1], locs[0].numel() // 2
    points = (2 * math.pi / maps.shape[1] * locs).reshape(-1, 2).T.contiguous()
    shares = basis.T.repeat_interleave(n_points, 1)  # coefficients, points of all frames
    samples = kspace.flatten(2).movedim(1, 0).flatten(1)
    back = torchkbnufft.KbNufftAdjoint(**settings(maps))
    images = [back(samples[None] * one, points, smaps=maps[None], norm="ortho") for one in shares]
    pairs: dict[tuple[int, int], Tensor] = {}
    for a in range(rank):
        for b in range(a + 1):
            both = (shares[a] * shares[b])[None]
            pairs[a, b] = pairs[b, a] = torchkbnufft.calc_toeplitz_kernel(
                points, weights=both, norm="ortho", **settings(maps)
            )
    toeplitz = torchkbnufft.ToepNufft()

    def normal(x: Tensor) -> Tensor:
        rows = []
        for a in range(rank):
            parts = [
                toeplitz(x[b], pairs[a, b], smaps=maps[None], norm="ortho") for b in range(rank)
            ]
            rows.append(sum(parts) + weight / 4 * x[a])
        return torch.stack(rows)

    return solve(normal, torch.stack(images) / 2, steps)
