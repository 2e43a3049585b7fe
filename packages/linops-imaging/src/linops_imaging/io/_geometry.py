"""The place of images in the scanner, from the headers of lines or images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ._ismrmrd_fields import DIRECTIONS


def affine_of(
    owner: str,
    header: Mapping[str, Tensor],
    number: Tensor,
    sizes: Sequence[int],
    fov: Sequence[float],
) -> Tensor:
    """Return the map from indices to positions, of entries with slice numbers."""
    names = ("position", *DIRECTIONS)
    if missing := [name for name in names if name not in header]:
        raise ValueError(f"{owner}: the file must have {', '.join(missing)}, got none")
    shape = (len(number), 3)
    for name in names:
        if header[name].shape != shape or not header[name].isfinite().all():
            raise ValueError(
                f"{owner}: {name} must be finite and of the shape {shape}, got the shape "
                f"{tuple(header[name].shape)}"
            )
    position, *directions = (header[name].double() for name in names)
    matrix = torch.stack([direction[0] for direction in directions], 1)
    for name, direction in zip(names[1:], directions, strict=True):
        if (direction - direction[0]).abs().max() > 1e-4:
            raise ValueError(
                f"{owner}: {name} must be one direction for all lines, got "
                f"{direction.unique(dim=0)[:3].tolist()}; select lines by where"
            )
    check_directions(owner, matrix)
    steps = matrix * (matrix.new_tensor(fov) / matrix.new_tensor(sizes))
    slices = number.unique()
    centres = torch.stack([position[number == one][0] for one in slices])
    if (position - centres[torch.searchsorted(slices, number)]).abs().max() > 1e-2:
        raise ValueError(f"{owner}: position must be the same for all lines of a slice")
    index = matrix.new_tensor([size // 2 for size in sizes])
    if len(slices) > 1:
        step = (centres[-1] - centres[0]) / (len(slices) - 1)
        expected = centres[0] + matrix.new_tensor(range(len(slices)))[:, None] * step
        worst = (centres - expected).norm(dim=1).max()
        if sizes[2] > 1 or not step.any() or worst > 0.01 * step.norm():
            raise ValueError(
                f"{owner}: slices must be single and equally spaced in the order of their "
                f"counter, got {sizes[2]} partitions and the positions {centres.tolist()}; "
                "select one by where={'slice': ...}"
            )
        steps[:, 2] = step
    affine = torch.eye(4, dtype=torch.float64, device=matrix.device)
    affine[:3, :3] = steps
    affine[:3, 3] = centres[0] - steps @ index
    affine[:2] *= -1  # from left and back to right and front
    return affine


def geometry_fields(owner: str, affine: Tensor, sizes: Sequence[int]) -> dict[str, Tensor]:
    """Return ``position``, directions and ``field_of_view`` of a volume, as headers have them."""
    affine = affine.detach().to("cpu", torch.float64).clone()
    if affine.shape != (4, 4) or not affine.isfinite().all() or not affine[:3, :3].det():
        raise ValueError(
            f"{owner}: the affine map must be an invertible (4, 4) matrix in mm, got "
            f"{affine.tolist()}"
        )
    affine[:2] *= -1
    steps = affine[:3, :3]
    lengths = steps.norm(dim=0)
    check_directions(owner, steps / lengths)
    index = affine.new_tensor([size // 2 for size in sizes])
    fields = dict(zip(DIRECTIONS, (steps / lengths).T, strict=True))
    fields["position"] = affine[:3, 3] + steps @ index
    fields["field_of_view"] = lengths * affine.new_tensor(sizes)
    return fields


def check_directions(owner: str, matrix: Tensor) -> None:
    """Raise an error unless the columns are perpendicular and of length 1."""
    if (matrix.mT @ matrix - torch.eye(3, device=matrix.device)).abs().max() > 1e-3:
        raise ValueError(
            f"{owner}: read_dir, phase_dir and slice_dir must be perpendicular and of length 1, "
            f"got {matrix.mT.tolist()}"
        )
