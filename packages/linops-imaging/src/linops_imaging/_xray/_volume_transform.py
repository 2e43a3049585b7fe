"""The base class of X-ray transforms of volumes, of which a subclass gives the `Poses`.

A views, V rows and U columns of detectors, R = V U rays of a view, X Y Z voxels.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from linops_core import GridOperator, Side, SliceableLinop
from linops_core.siblings import GridPart, steps_that_differ
from nameddim import NamedDimension, NamedShape

from .._checks import check_real_tensor, sizes_of_grid
from ._line_integrals import Function, LineIntegrals, Names, shape_of
from ._many_images import blocks
from ._plane_by_plane import RayLines, add_back_projection, is_constant, volume_line_integrals
from ._rays import centred

_RAYS, _RAYS_ON_GPU = 2**14, 2**18
"""Rays, of one or more views, that are computed at a time."""


class Poses(NamedTuple):
    """Where the sources and detectors of views are, (A, 3) each, in float64."""

    source: Tensor
    """Places of the sources, or directions of parallel rays."""
    detector: Tensor
    """Middle of the detectors."""
    u: Tensor
    """From one column of detectors to the next."""
    v: Tensor
    """From one row to the next."""


class VolumeTransform(LineIntegrals, GridOperator[GridPart]):
    """Line integrals of a volume along the rays of poses of a source and a detector."""

    grid_keys = ("grid",)
    _is_axis_by_axis = False

    angles: Tensor
    detector_spacing: Tensor | tuple[float, ...]
    detector_offset: Tensor | tuple[float, ...]
    origin: Tensor | tuple[float, ...]

    def __init__(
        self,
        poses: Mapping[str, Tensor] | None,
        n_detectors: int | Sequence[int],
        grid_size: int | Sequence[int],
        origin: Sequence[float] | Tensor | None,
        names: tuple[Names, Names, Names | None],
    ) -> None:
        owner = type(self).__name__
        detectors = sizes_of_grid(owner, n_detectors, 2, name="n_detectors")
        sizes = sizes_of_grid(owner, grid_size, 3)
        lengths = dict.fromkeys(("detector_spacing", "detector_offset", "origin", "vector"), True)
        lengths["tilt"] = False
        shape = shape_of(owner, *names, 3, lengths)
        rays = shape.other_shapes["rays"]
        of_poses = (*rays[:1], *shape.other_shapes["vector_shape"])
        others = dict(shape.other_shapes)
        others |= {"grid": (*others["image"], *rays[1:]), "pose_shape": of_poses}
        shape = NamedShape(shape.ishape, shape.oshape, **others)
        GridOperator.__init__(self, shape, [GridPart(n, 0, n) for n in (*sizes, *detectors)])
        middle = [(size - 1) / 2 for size in sizes]
        self.register_lengths("origin", middle if origin is None else origin, 3)
        for name, value in (poses or {}).items():
            check_real_tensor(owner, name, value)
            if value.ndim != 2 or value.shape[1] != 3:
                raise ValueError(
                    f"{owner}: {name} must have the shape (views, 3), got {tuple(value.shape)}"
                )
            self.register_weight(name, value, "pose_shape", is_geometry=True)
        if len({len(value) for value in (poses or {}).values()}) > 1:
            counts = {name: len(value) for name, value in (poses or {}).items()}
            raise ValueError(f"{owner}: poses must have equally many views, got {counts}")

    @classmethod
    def of_poses(
        cls,
        poses: Mapping[str, Tensor],
        n_detectors: int | Sequence[int],
        grid_size: int | Sequence[int],
        origin: Sequence[float] | Tensor | None,
        names: tuple[Names, Names, Names | None],
    ) -> Self:
        """Return the transform whose weights are poses."""
        self = cls.__new__(cls)
        VolumeTransform.__init__(self, poses, n_detectors, grid_size, origin, names)
        return self

    def given_poses(self, first: str) -> Poses:
        """Return the poses that are weights, of which the first one has this name."""
        names = (first, "detector_middle", "u", "v")
        return Poses(*[self.weight_part(name).double() for name in names])

    @property
    def grid_size(self) -> tuple[int, ...]:
        """Sizes of the volume, or of the part of a tile."""
        return tuple([part.lengths[0] for part in self._axes[:3]])

    @property
    def n_detectors(self) -> tuple[int, ...]:
        """Rows and columns of detectors, or of the part of a tile."""
        return tuple([part.lengths[0] for part in self._axes[3:]])

    @property
    def whole_size(self) -> tuple[int, ...]:
        """Sizes of the whole volume."""
        return tuple([part.size for part in self._axes[:3]])

    @property
    def has_whole_detector(self) -> bool:
        """Whether this is no tile of the rows and columns of the detector."""
        return all(part.lengths[0] == part.size for part in self._axes[3:])

    @abstractmethod
    def poses(self) -> Poses:
        """Return the poses for the current weights."""

    @abstractmethod
    def rays(self, pose: Poses, along_u: Tensor, along_v: Tensor) -> tuple[Tensor, Tensor]:
        """Return a point and the direction of each ray, which broadcast to (A, V, U, 3).

        ``along_u`` (U, 1) and ``along_v`` (V, 1, 1) number the detectors from the middle ones. The
        parts of the pose are (A, 1, 1, 3).
        """

    def lines(self, poses: Poses) -> RayLines:
        """Return the rays of some views, in indices of the voxels of the tile."""
        rows, columns = (
            centred(part.size, poses.u)[part.start : part.stop] for part in self._axes[3:]
        )
        # (A, 1, 1, 3), with the detectors in the middle.
        of_views = Poses(*[part[:, None, None] for part in poses])
        point, step = self.rays(of_views, columns[:, None], rows[:, None, None])
        shape = len(poses.u), len(rows), len(columns), 3
        start = (point + self.origin_of_tile(poses.u)).expand(shape)
        return RayLines(start.reshape(-1, 3), step.expand(shape).reshape(-1, 3))

    def origin_of_tile(self, like: Tensor) -> Tensor:
        """Return the index of the voxel of the tile that is at the origin, (3,)."""
        origin = self.origin
        whole = self.weight_part("origin").to(like) if isinstance(origin, Tensor) else origin
        return torch.as_tensor(whole, dtype=like.dtype, device=like.device) - torch.tensor(
            [part.start for part in self._axes[:3]], dtype=like.dtype, device=like.device
        )

    def functions(self) -> tuple[Function, Function]:
        """Return the transform of volumes (B, X, Y, Z) and its adjoint."""
        shape = self.n_detectors

        # Poses are computed within: transforms of torch call these functions at other levels.
        def forward(x: Tensor) -> Tensor:
            poses = self.poses()
            steps = self._some_views(x, poses)
            if not is_constant(x, *poses) and len(x) and len(poses.u):
                parts = [volume_line_integrals(x, self.lines(some)) for _, some in steps]
                lines: Tensor = torch.cat(parts, 1).unflatten(1, (-1, *shape))
                return lines
            result = x.new_empty(len(x), len(poses.u), *shape)
            for views, some in steps_that_differ(x, steps, _n_views):
                target = result[:, views]
                target.copy_(volume_line_integrals(x, self.lines(some)).view_as(target))
            return result

        def adjoint(y: Tensor) -> Tensor:
            poses = self.poses()
            volume = y.new_zeros(len(y), *self.grid_size)
            for views, some in steps_that_differ(y, self._some_views(y, poses), _n_views):
                volume = add_back_projection(volume, y[:, views].flatten(1), self.lines(some))
            return volume

        return forward, adjoint

    def _some_views(self, values: Tensor, poses: Poses) -> Iterator[tuple[slice, Poses]]:
        """Yield the poses of some views at a time, of all in a graph."""
        n_views, n_rays = len(poses.u), math.prod(self.n_detectors)
        step = max(1, (_RAYS if values.is_cpu else _RAYS_ON_GPU) // n_rays)
        if torch.compiler.is_compiling():
            step = n_views
        for views in blocks(n_views, step) if len(values) else ():
            yield views, Poses(*[part[views] for part in poses])

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``."""
        dims = self.shape.other_shapes["grid"]
        dim = NamedDimension.infer(dim)
        if dim in dims:
            return self._axes[dims.index(dim)].lengths[0]
        return SliceableLinop.size(self, dim)

    def sizes(self, side: Side) -> tuple[int | None, ...]:
        """Return the lengths of the dimensions of the input or output."""
        return tuple(map(self.size, self.ishape if side == "input" else self.oshape))


def axes_at(angles: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the directions e_s across, e_t along and e_z up of views, (A, 3) each."""
    zero, cosine, sine = torch.zeros_like(angles), angles.cos(), angles.sin()
    across = torch.stack([cosine, sine, zero], 1)
    along = torch.stack([-sine, cosine, zero], 1)
    return across, along, torch.stack([zero, zero, torch.ones_like(angles)], 1)


def _n_views(step: tuple[slice, Poses]) -> object:
    views, _ = step
    return views.stop - views.start
