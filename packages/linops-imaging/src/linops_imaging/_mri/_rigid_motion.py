"""Rigid motion of the object between shots."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from linops_core import Diagonal, NamedLinop
from linops_core.siblings import acts_as, check_real
from nameddim import NamedDimension, as_dims

from .._checks import check_finite, check_real_tensor
from .._non_uniform._nufft import NUFFT

Dims = Sequence[NamedDimension | str]


def rigid_motion(
    transform: NUFFT,
    shifts: Tensor,
    rotations: Tensor | None = None,
    dims: Dims = ("Shot",),
    *,
    voxel_size: Sequence[float] | None = None,
) -> NamedLinop:
    r"""Return a NUFFT of an object that is turned by R, then shifted by d, in each shot,

    .. math:: y_{sj} = e^{-2 \pi i \, \kappa_{sj} \cdot d_s} \, X(R_s^T \kappa_{sj}) ,

    with the locations :math:`\kappa = l / N` in cycles per voxel, and the transform X of the object
    in its first pose, :math:`x(r)`. In shot s the object is :math:`x(R_s^T (r - d_s))`, with r from
    the middle of the image, voxel N // 2. So no image is interpolated: locations are turned, and
    samples get a phase. The adjoint is exact.

    Parameters
    ----------
    transform : NUFFT
        In two or three dimensions. Locations that are turned beyond the edge of k-space follow the
        same formula.
    shifts : Tensor
        d in voxels, real, of the shape of ``dims`` and an axis of length D.
    rotations : Tensor, optional
        In two dimensions an angle in radians for each shot; positive angles turn the first axis of
        the image towards the second. In three dimensions a rotation vector for each shot, (..., 3):
        the axis times the angle, right-handed. No rotation by default.
    dims : sequence of dimensions
        The shots: dimensions of the locations.
    voxel_size : sequence of float, optional
        Lengths of a voxel in any unit, D numbers; by default all are alike.

    Returns
    -------
    NamedLinop
        A composition of a Diagonal and a NUFFT. Gradients reach shifts and rotations. It is made
        for their present values: make another one when they change.

    Raises
    ------
    TypeError
        If the transform is not a NUFFT, or shifts or rotations are not real tensors.
    ValueError
        If shapes or dimensions do not fit, or a shift or rotation is not finite.

    References
    ----------
    P. G. Batchelor, D. Atkinson, P. Irarrazaval, D. L. G. Hill, J. Hajnal and D. Larkman, "Matrix
    description of general motion correction applied to multishot images", Magnetic Resonance in
    Medicine 54 (2005).

    Examples
    --------
    >>> locs = torch.tensor([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]]])
    >>> F = NUFFT(locs, (4, 4), ("Shot", "K"))
    >>> A = rigid_motion(F, torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
    >>> x = torch.zeros(4, 4)
    >>> x[2, 2] = 4.0
    >>> torch.view_as_real(A(x)).round(decimals=2).abs()  # the last sample: exp(-2 pi i / 4)
    tensor([[[1., 0.],
             [1., 0.]],
    <BLANKLINE>
            [[1., 0.],
             [0., 1.]]])
    """
    names = check_motion("rigid_motion", transform, shifts, rotations, dims)
    scale = voxel_scale("rigid_motion", transform, voxel_size)
    of_points = transform.interpolate.shape.other_shapes["locs_shape"][:-1]
    turns = None
    if rotations is not None:
        angles = rotations if rotations.ndim > len(names) else rotations.unsqueeze(-1)
        turns = broadcast_to_points(angles, names, of_points)
    moved, phases = moved_locations(
        transform.locs,
        transform.grid_size,
        scale,
        broadcast_to_points(shifts, names, of_points),
        turns,
    )
    other = transform.with_weights(lambda _: moved) if rotations is not None else transform
    return Diagonal.from_weight(phases, of_points, other.oshape) @ other


def moved_locations(
    locs: Tensor,
    sizes: Sequence[int],
    scale: Tensor,
    shifts: Tensor,
    rotations: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the turned locations, and the phase factors of the samples.

    Parameters
    ----------
    locs : Tensor
        (..., D).
    sizes : sequence of int
    scale : Tensor
        Sizes of a voxel, (D,).
    shifts : Tensor
        Broadcasts against the locations.
    rotations : Tensor, optional
        Angles or vectors, (..., 1) or (..., 3).
    """
    n = torch.tensor(sizes, dtype=torch.float64, device=locs.device)
    turns = locs.double() / n
    angles = -2 * math.pi * (turns * shifts.double()).sum(-1)
    dtype = torch.promote_types(locs.dtype, shifts.dtype)
    phases = torch.complex(angles.cos(), angles.sin()).to(dtype.to_complex())
    if rotations is not None:
        matrices = rotation_matrices(rotations.double())
        locs = (rotated_locations(turns, scale, matrices) * n).to(dtype)
    return locs, phases


def rotated_locations(turns: Tensor, scale: Tensor, matrices: Tensor) -> Tensor:
    """Return R^T times locations in cycles per voxel, for lengths of a voxel."""
    return ((turns / scale).unsqueeze(-2) @ matrices).squeeze(-2) * scale


def rotation_matrices(rotations: Tensor) -> Tensor:
    """Return R for angles (..., 1), or for rotation vectors (..., 3)."""
    if rotations.shape[-1] == 1:
        cos, sin = rotations.cos(), rotations.sin()
        return torch.stack([torch.cat([cos, -sin], -1), torch.cat([sin, cos], -1)], -2)
    result: Tensor = torch.linalg.matrix_exp(_generator(rotations))
    return result


def rotation_derivatives(rotations: Tensor) -> list[Tensor]:
    """Return the derivative of :func:`rotation_matrices` to each number of a rotation."""
    if rotations.shape[-1] == 1:
        return [rotation_matrices(rotations + math.pi / 2)]
    # exp of [[A, E], [0, A]] has the derivative of exp(A) in the direction E above.
    twice = torch.zeros(*rotations.shape[:-1], 6, 6, dtype=rotations.dtype, device=rotations.device)
    twice[..., :3, :3] = twice[..., 3:, 3:] = _generator(rotations)
    result = []
    for unit in torch.eye(3, dtype=rotations.dtype, device=rotations.device):
        twice[..., :3, 3:] = _generator(unit)
        result.append(torch.linalg.matrix_exp(twice)[..., :3, 3:])
    return result


def _generator(rotations: Tensor) -> Tensor:
    """Return the matrix of the vector product with rotation vectors (..., 3)."""
    x, y, z = rotations.unbind(-1)
    zero = torch.zeros_like(x)
    rows = [(zero, -z, y), (z, zero, -x), (-y, x, zero)]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def check_motion(
    owner: str, transform: NUFFT, shifts: Tensor | None, rotations: Tensor | None, dims: Dims
) -> tuple[NamedDimension, ...]:
    """Return the dimensions of the shots, if all arguments fit each other."""
    if not acts_as(transform, NUFFT) or transform.is_adjoint:
        raise TypeError(f"{owner}: transform must be a NUFFT, got {transform!r}")
    n_dims, names = len(transform.grid_size), as_dims(dims)
    if n_dims == 1:
        raise ValueError(f"{owner}: transform must have 2 or 3 dimensions, got 1")
    of_points = transform.interpolate.shape.other_shapes["locs_shape"][:-1]
    if len({*names} & {*of_points}) < max(1, len(names)):
        raise ValueError(
            f"{owner}: dims must be different dimensions of the locations "
            f"({', '.join(map(str, of_points))}), got {names}"
        )
    shots = tuple(transform.locs.shape[of_points.index(dim)] for dim in names)
    expected = {"shifts": (shifts, (*shots, n_dims)), "rotations": (rotations, shots)}
    if n_dims == 3:
        expected["rotations"] = rotations, (*shots, 3)
    for name, (values, shape) in expected.items():
        if values is None:
            continue
        check_real_tensor(owner, name, values, shape, f" for {names}")
        check_finite(owner, name, values)
    return names


def voxel_scale(owner: str, transform: NUFFT, voxel_size: Sequence[float] | None) -> Tensor:
    """Return the sizes of a voxel."""
    n_dims = len(transform.grid_size)
    sizes = (1.0,) * n_dims if voxel_size is None else tuple(voxel_size)
    if len(sizes) != n_dims:
        raise ValueError(f"{owner}: voxel_size must be {n_dims} numbers, got {sizes}")
    for size in sizes:
        check_real(owner, "voxel_size", size, above=0)
    return torch.tensor(sizes, dtype=torch.float64, device=transform.locs.device)


def broadcast_to_points(
    values: Tensor, names: Sequence[NamedDimension], of_points: Sequence[NamedDimension]
) -> Tensor:
    """Return values (shots, V) as a view that broadcasts against those of points, (..., V)."""
    order = [names.index(dim) for dim in of_points if dim in names]
    values = values.permute(*order, len(names))
    index = [slice(None) if dim in names else None for dim in of_points]
    return values[(*index, slice(None))]
