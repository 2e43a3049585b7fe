"""Poses of shots from their samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from linops_core import Diagonal
from linops_core.siblings import axis_of, check_integer, is_dense, not_a_tensor
from nameddim import NamedDimension

from .._checks import check_finite
from .._non_uniform._nufft import NUFFT
from ._rigid_motion import (
    Dims,
    broadcast_to_points,
    check_motion,
    moved_locations,
    rotated_locations,
    rotation_derivatives,
    voxel_scale,
)


class Motion(NamedTuple):
    """Poses of shots."""

    shifts: Tensor
    """In voxels, (shots, D)."""
    rotations: Tensor
    """Angles (shots,) or rotation vectors (shots, 3), in radians."""


def fit_motion(
    transform: NUFFT,
    images: Tensor,
    kspace: Tensor,
    dims: Dims = ("Shot",),
    *,
    shifts: Tensor | None = None,
    rotations: Tensor | None = None,
    voxel_size: Sequence[float] | None = None,
    max_num_iters: int = 10,
) -> Motion:
    r"""Return the pose of each shot that explains its samples best,

    .. math:: \min_{d_s, R_s} \lVert A(d, R) \, x - y \rVert^2 ,

    for the operator A of :func:`rigid_motion`, by Levenberg-Marquardt steps of all shots at once.
    Derivatives are exact: those to locations are transforms of the image times a coordinate. Steps
    are small against a resolved detail, so begin close to the solution. For an unknown image, fit
    the image and the motion in turns.

    Parameters
    ----------
    transform : NUFFT
        Of the object at rest, in two or three dimensions.
    images : Tensor
        x, of the shape of the input of the transform: an image for each coil.
    kspace : Tensor
        y, of the shape of the output of the transform.
    dims, voxel_size
        As in :func:`rigid_motion`.
    shifts, rotations : Tensor, optional
        Where to begin; 0 by default.
    max_num_iters : int
        Number of steps.

    Returns
    -------
    Motion
        A named tuple of ``shifts`` (shots, D) in voxels and ``rotations`` in radians, in double
        precision, without gradients; ``rigid_motion(transform, *found)`` is the operator.

    Raises
    ------
    TypeError, ValueError
        As in :func:`rigid_motion`; if ``kspace`` is not complex or does not have the shape of the
        output, or a number is not finite.

    References
    ----------
    D. W. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", Journal of
    the Society for Industrial and Applied Mathematics 11 (1963).

    L. Cordero-Grande, R. P. A. G. Teixeira, E. J. Hughes, J. Hutter, A. N. Price and J. V. Hajnal,
    "Sensitivity encoding for aligned multishot magnetic resonance reconstruction", IEEE
    Transactions on Computational Imaging 2 (2016).
    """
    names = check_motion("fit_motion", transform, shifts, rotations, dims)
    check_integer("fit_motion", "max_num_iters", max_num_iters, 0)
    scale = voxel_scale("fit_motion", transform, voxel_size)
    if not is_dense(kspace) or not kspace.is_complex():
        raise not_a_tensor("fit_motion", "kspace", kspace, "a tensor of complex numbers")
    for name, values in (("images", images), ("kspace", kspace)):
        check_finite("fit_motion", name, values)  # no step would be better than NaN
    with torch.no_grad():
        expected = transform(images).shape
        if kspace.shape != expected:
            raise ValueError(
                f"fit_motion: kspace must have the shape {tuple(expected)} of the output of the "
                f"transform, got {tuple(kspace.shape)}"
            )
        fit = _Fit(transform, images, kspace, names, scale)
        pose = fit.first(shifts, rotations)
        damping = pose.new_full(pose.shape[:-1], 1e-3)
        explained = fit.explained(pose)
        cost = fit.cost(explained)
        for _ in range(max_num_iters):
            other = pose + fit.step(pose, explained, damping)
            trial = fit.explained(other)
            new_cost = fit.cost(trial)
            is_better = new_cost < cost
            pose = torch.where(is_better.unsqueeze(-1), other, pose)
            explained = torch.where(
                fit.on_samples(is_better.double(), names).real > 0, trial, explained
            )
            cost = torch.where(is_better, new_cost, cost)
            damping = torch.where(is_better, damping / 10, damping * 10)
    n_dims = len(transform.grid_size)
    turns = pose[..., n_dims:]
    return Motion(pose[..., :n_dims], turns if n_dims == 3 else turns.squeeze(-1))


class _Fit(NamedTuple):
    """Samples, and their derivatives to poses (shots, D + 1 or D + 3): shifts, then rotations."""

    transform: NUFFT
    images: Tensor
    kspace: Tensor
    names: tuple[NamedDimension, ...]
    scale: Tensor

    def first(self, shifts: Tensor | None, rotations: Tensor | None) -> Tensor:
        """Return the first poses."""
        n_dims, of_points = len(self.transform.grid_size), self.of_points
        lengths = [self.transform.locs.shape[of_points.index(dim)] for dim in self.names]
        n_turns = 3 if n_dims == 3 else 1
        pose = self.scale.new_zeros(*lengths, n_dims + n_turns)
        if shifts is not None:
            pose[..., :n_dims] = shifts
        if rotations is not None:
            pose[..., n_dims:] = rotations if n_dims == 3 else rotations.unsqueeze(-1)
        return pose

    @property
    def of_points(self) -> tuple[NamedDimension, ...]:
        """Dimensions of the locations."""
        return self.transform.interpolate.shape.other_shapes["locs_shape"][:-1]

    def moved(self, pose: Tensor) -> tuple[Tensor, Tensor]:
        """Return the locations and phases of some poses."""
        n_dims = len(self.transform.grid_size)
        shifts, rotations = (
            broadcast_to_points(part, self.names, self.of_points)
            for part in (pose[..., :n_dims], pose[..., n_dims:])
        )
        locs = self.transform.locs.double()
        return moved_locations(locs, self.transform.grid_size, self.scale, shifts, rotations)

    def explained(self, pose: Tensor) -> Tensor:
        """Return the samples of the images in these poses."""
        locs, phases = self.moved(pose)
        return self.on_samples(phases, self.of_points) * self.transformed(self.images, locs)

    def transformed(self, images: Tensor, locs: Tensor) -> Tensor:
        """Return the transform at other locations."""
        return self.transform.with_weights(lambda weight: locs.to(weight.dtype))(images)

    def derivatives(self, pose: Tensor, explained: Tensor) -> list[Tensor]:
        """Return the derivative of the samples to each number of a pose."""
        sizes, axes = self.transform.grid_size, self.transform.grid_axes[0]
        n_dims = len(sizes)
        turns = self.transform.locs.double() / pose.new_tensor(sizes)
        factors = (-2j * math.pi * turns).unbind(-1)
        columns = [self.on_samples(factor, self.of_points) * explained for factor in factors]
        locs, phases = self.moved(pose)
        slopes = []
        for axis, n in zip(axes, sizes, strict=True):
            at = torch.arange(n, dtype=self.images.real.dtype, device=self.images.device) - n // 2
            along = at.reshape(-1, *[1] * (-1 - axis if axis < 0 else self.images.ndim - 1 - axis))
            slopes.append(self.transformed(self.images * along, locs))
        rotations = broadcast_to_points(pose[..., n_dims:], self.names, self.of_points)
        for matrices in rotation_derivatives(rotations):
            change = (
                -2j
                * math.pi
                * rotated_locations(turns, self.scale, matrices)
                * phases.unsqueeze(-1)
            )
            parts = zip(change.unbind(-1), slopes, strict=True)
            terms = [self.on_samples(samples, self.of_points) * slope for samples, slope in parts]
            columns.append(torch.stack(terms).sum(0))
        return columns

    def step(self, pose: Tensor, explained: Tensor, damping: Tensor) -> Tensor:
        """Return the damped Gauss-Newton step of each shot."""
        columns, residual = self.derivatives(pose, explained), self.kspace - explained
        rows = [
            torch.stack(
                [self.per_shot((one.conj() * other).real) for other in (*columns, residual)]
            )
            for one in columns
        ]
        product = torch.stack(rows).movedim((0, 1), (-2, -1)).double()
        matrix, right = product[..., :-1], product[..., -1]
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        least = 1e-12 * diagonal.amax(-1, keepdim=True).clamp(min=1e-300)
        more = torch.diag_embed(damping.unsqueeze(-1) * diagonal + least)
        change: Tensor = torch.linalg.solve(matrix + more, right)
        return change

    def cost(self, explained: Tensor) -> Tensor:
        """Return the squared distance from the samples, for each shot."""
        return self.per_shot((explained - self.kspace).abs().square().double())

    def per_shot(self, values: Tensor) -> Tensor:
        """Return the sums over all samples of a shot."""
        names = self.transform.oshape
        kept = [axis_of(names.index(dim), names) % values.ndim for dim in self.names]
        values = values.movedim(kept, tuple(range(len(kept))))
        return values.flatten(len(kept)).sum(-1) if values.ndim > len(kept) else values

    def on_samples(self, values: Tensor, dims: Sequence[NamedDimension]) -> Tensor:
        """Return a view that broadcasts against samples."""
        multiply = Diagonal.from_weight(values, dims, self.transform.oshape)
        return multiply.aligned_weight(self.kspace.ndim).to(self.kspace.dtype)
