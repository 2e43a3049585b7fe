"""Reconstruction of volumes from circular scans of a cone by Feldkamp, Davis and Kress."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from linops_core import Chain, NamedLinop
from linops_core.siblings import acts_as, check_flags, is_dense, not_a_tensor

from .._checks import check_finite
from ._beams import FanRays
from ._cone_beam import ConeBeam
from ._fbp import check_filter, of_chain, with_ramp_filter
from ._many_images import blocks
from ._plane_by_plane import is_constant
from ._rays import centred
from ._scan_weights import scan_weights

_AT_ONCE, _ON_GPU = 2**17, 2**22
"""Voxels that are computed at a time."""


def fdk(
    sinogram: Tensor, A: NamedLinop, window: str = "ramp", *, allow_gaps: bool = False
) -> Tensor:
    r"""Return the volume by the method of Feldkamp, Davis and Kress (FDK).

    Each row of the detector is filtered as in :func:`fbp`, after a weight with the cosine of the
    angle between a ray and the middle ray. A voxel is found by bilinear interpolation where its ray
    crosses the detector, with the weight :math:`R^2 / l^2` for the distance l from the source along
    the middle ray (for curved detectors, the distance from the source in the middle plane). It is
    exact in the middle plane, and for objects that do not change along the axis of rotation.
    Elsewhere the error grows with the angle of the cone. Short scans and detectors that see one
    side of the object have the weights of :func:`fbp`.

    Parameters
    ----------
    sinogram : Tensor
        (..., A, V, U), real or complex. Half precision and integers are computed in float32.
    A : ConeBeam
        With angles and without heights. Or one composed with numbers and unitary operators. A tile
        of A along the axes of the volume gives that part of the volume.
    window : {"ramp", "shepp-logan", "cosine", "hamming", "hann"}
        Multiplies the ramp, to reduce noise.
    allow_gaps : bool
        Whether angles may be missing, as in :func:`fbp`.

    Returns
    -------
    Tensor
        (..., Nx, Ny, Nz).

    Raises
    ------
    TypeError
        If the sinogram is not a tensor, or A is another operator.
    ValueError
        If the scan is not circular, if A is a tile of the detector, if there is no such window, if
        the sinogram does not have the size of A's output, or if angles are missing.

    References
    ----------
    L. A. Feldkamp, L. C. Davis and J. W. Kress, "Practical cone-beam algorithm", Journal of the
    Optical Society of America A 1 (1984).

    Examples
    --------
    >>> angles = torch.arange(60) * torch.pi / 30
    >>> A = ConeBeam(angles, (9, 36), (24, 24, 5), 60, 0)
    >>> rod = torch.zeros(24, 24, 5)
    >>> rod[8:16, 8:16] = 1
    >>> abs(fdk(A(rod), A)[12, 12, 2] - 1) < 0.05
    tensor(True)
    """
    check_flags("fdk", allow_gaps=allow_gaps)
    if not is_dense(sinogram):
        raise not_a_tensor("fdk", "the sinogram", sinogram)
    if acts_as(A, Chain):
        return of_chain(
            "fdk",
            sinogram,
            A,
            [ConeBeam],
            lambda y, inner: fdk(y, inner, window, allow_gaps=allow_gaps),
        )
    if not acts_as(A, ConeBeam) or A.is_adjoint:
        raise TypeError(
            f"fdk: A must be a ConeBeam, got {A!r}; a subclass must not override its functions"
        )
    check_filter("fdk", window)
    if not A.is_circular:
        raise ValueError(
            "fdk: the scan must be a circle, made from angles without heights, got other poses; "
            "find the volume by a solver, such as linops_solvers.conjugate_gradients"
        )
    sizes, angles, shape = A.grid_size, A.weight_part("angles"), A.n_detectors
    if not A.has_whole_detector:
        raise ValueError("fdk: A must have the whole detector, got a tile of it")
    if sinogram.shape[-3:] != (len(angles), *shape):
        raise ValueError(
            f"fdk: the sinogram must have {len(angles)} views of {shape} detectors, got shape "
            f"{tuple(sinogram.shape)}"
        )
    sinogram = sinogram.to(torch.promote_types(sinogram.dtype, torch.float32))
    if not sinogram.numel():
        empty: Tensor = A.H(sinogram)
        return empty
    check_finite("fdk", "the angles of A", angles)
    if sinogram.is_complex():
        parts = torch.stack([sinogram.real, sinogram.resolve_conj().imag])
        return torch.complex(*fdk(parts, A, window, allow_gaps=allow_gaps))
    lines = sinogram.reshape(-1, *sinogram.shape[-3:])
    (dv, du), (v, u) = A.length("detector_spacing"), A.length("detector_offset")
    origin = A.origin_of_tile(angles.double())
    lengths = A.source_distance, A.detector_distance
    whole = [at + part.start for at, part in zip(origin[:2], A.axes, strict=False)]
    beam = FanRays(angles, shape[1], du, u, whole, *lengths, A.detector == "curved")
    weights, n_missing = scan_weights(beam, A.whole_size[:2], allow_gaps)
    beam = beam._replace(origin=origin[:2].unbind())
    radius = beam.source + beam.detector
    at_v = (centred(shape[0], weights) * dv + v).unsqueeze(1)
    across = radius * beam.fan().tan()
    if beam.is_curved:
        weights, across = weights * beam.fan().cos(), torch.zeros_like(across)
    cosine = radius / (across.square() + at_v.square() + radius**2).sqrt()
    whole_beam, filtered = with_ramp_filter(beam, n_missing, window, lines)
    assert isinstance(whole_beam, FanRays)
    beam = whole_beam
    weights, cosine = weights.to(lines.dtype), cosine.to(lines.dtype)
    z = (torch.arange(sizes[2], dtype=torch.float64, device=angles.device) - origin[2]).to(lines)
    at_0 = (-2 * v / (dv * shape[0]) + torch.zeros_like(origin[:1])).to(lines)
    x0, x1 = (
        torch.arange(size, dtype=torch.float64, device=angles.device) - at
        for size, at in zip(sizes[:2], origin, strict=False)
    )
    volume = lines.new_zeros(len(lines), *sizes)
    may_write = is_constant(lines, angles, weights)
    most = _AT_ONCE if lines.is_cpu else _ON_GPU
    rows = [*blocks(sizes[0], max(1, most // (sizes[1] * sizes[2])) if may_write else sizes[0])]
    # Places on the detector, from -1 to 1: of columns, and of rows.
    points = lines.new_empty(rows[0].stop if may_write else 0, *sizes[1:], 2)
    for view in range(len(angles)):
        shadow = filtered(lines[:, view] * (weights[view] * cosine)).unsqueeze(0)
        own_beam = beam._replace(angles=angles[view : view + 1])
        ((s, away),) = own_beam.distances(x0, x1, lines.dtype)
        distance = (s.square() + away.square()).sqrt() if beam.is_curved else away
        column = beam.detector_at(s, away) * (2 / beam.n_detectors) + (1 / beam.n_detectors - 1)
        step = (2 * radius / shape[0]) / (dv * distance)
        nearness = beam.nearness(s, away)
        # A row is a multiple of z and a number.
        column, step, nearness = (t.to(lines.dtype).unsqueeze(2) for t in (column, step, nearness))
        for part in rows:
            if may_write:
                grid = points[: part.stop - part.start]
                grid[..., 0] = column[part]
                torch.addcmul(at_0, step[part], z, out=grid[..., 1])
            else:
                row = torch.addcmul(at_0, step, z)
                grid = torch.stack([column.expand_as(row), row], 3)
            sampled = grid_sample(shadow, grid.flatten(0, 1).unsqueeze(0), align_corners=False)
            sampled = sampled.view(-1, *grid.shape[:-1])
            if may_write:
                volume[:, part].addcmul_(sampled, nearness[part])
            else:
                volume = torch.addcmul(volume, sampled, nearness)
    return volume.view(*sinogram.shape[:-3], *sizes)
