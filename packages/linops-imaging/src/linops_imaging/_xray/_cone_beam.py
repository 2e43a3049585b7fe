"""X-ray transform of a cone of rays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

import torch
from torch import Tensor

from linops_core.siblings import can_read_values, check_real

from .._checks import check_real_tensor
from ._beams import radius_of
from ._fan_beam import check_detector
from ._line_integrals import Names, check_angles
from ._volume_transform import Poses, VolumeTransform, axes_at

Pair = float | Sequence[float] | Tensor
VOLUME: Names = ("Nx", "Ny", "Nz")
VIEWS: Names = ("A", "Dv", "Du")


class ConeBeam(VolumeTransform):
    r"""The X-ray transform of a volume along rays from a source to a detector,

    .. math:: p(\phi, v, u) = \int x(S + q \, (D_{uv} - S) / |D_{uv} - S|) \, dq, \qquad
        S = -R \, e_t + h \, e_z, \quad D_{uv} = u \, e_s + R_D \, e_t + (v + h) \, e_z,

    with :math:`e_s = (\cos \phi, \sin \phi, 0)`, :math:`e_t = (-\sin \phi, \cos \phi, 0)` and
    :math:`e_z = (0, 0, 1)`, by Joseph's method: where a ray crosses a plane of voxels, the volume
    is interpolated bilinearly. Lengths are in voxels. Coordinates 0, 1 and 2 belong to the axes of
    the volume. The middle plane of the cone is :class:`FanBeam`. Curved detectors are on a cylinder
    along :math:`e_z` about the source: the columns are at the angles :math:`u / (R + R_D)`. The
    adjoint is matched: it is the transpose of the same matrix.

    :meth:`from_poses` makes the transform of any poses of the source and the detector.

    Parameters
    ----------
    angles : Tensor
        Real, (A,), in radians.
    n_detectors : (int, int)
        Numbers of rows (along v) and columns (along u) of the detector.
    grid_size : (int, int, int)
        Size of the volume.
    source_distance : float
        R, from the source to the axis of rotation. The source must be at least a voxel outside of
        the cylinder around the volume.
    detector_distance : float
        :math:`R_D`, from the axis to the detector, not negative.
    detector_spacing : float, (float, float) or Tensor
        Distance of neighbouring rows and of neighbouring columns.
    output_shape : (dimension, dimension, dimension)
        Dimensions of views, rows and columns.
    input_shape : (dimension, dimension, dimension)
        Dimensions of the volume.
    batch_shape : sequence of dimensions, optional
        Dimensions before the volume. Any dimensions by default.
    detector_offset : float, (float, float) or Tensor
        v and u of the middle of the detector.
    origin : (float, float, float) or Tensor, optional
        Index of the voxel, with fractions, at the coordinates 0. The middle of the volume by
        default.
    heights : Tensor, optional
        h of each view, (A,): the source and the detector move along the axis. For a helix of pitch
        P per turn, this is :math:`P \phi / 2 \pi`.
    detector : {"flat", "curved"}
        Whether the detector is a plane or a cylinder about the source.

    Raises
    ------
    TypeError
        If angles or other tensors are not of real numbers, or an argument is not a number.
    ValueError
        If a number is out of range, or there is a wrong number of numbers or dimensions.

    Notes
    -----
    All dimensions can be sliced. A tile of the volume reads a slab of it, and tiles along its axes
    add up to the whole; rays that miss the slab take no time.

    The result has the dtype of the input, for a geometry of any dtype; half precision is computed
    in float32. Gradients reach the volume and all tensors of the geometry, whose dtype they have.
    While gradients to the geometry are recorded, all rays in all planes are in memory. On a GPU the
    adjoint adds to voxels in any order, so its last digits may change from call to call, and
    ``torch.use_deterministic_algorithms`` refuses it.

    References
    ----------
    P. M. Joseph, "An improved algorithm for reprojecting rays through pixel images", IEEE
    Transactions on Medical Imaging 1 (1982).

    Examples
    --------
    >>> import torch
    >>> A = ConeBeam(torch.zeros(1), (3, 3), (3, 3, 3), source_distance=4, detector_distance=4)
    >>> volume = torch.zeros(3, 3, 3)
    >>> volume[1, :, 1] = 1.0
    >>> A(volume)[0, 1, 1]  # along a row of three voxels
    tensor(3.)
    """

    def __init__(
        self,
        angles: Tensor,
        n_detectors: int | Sequence[int],
        grid_size: int | Sequence[int],
        source_distance: float,
        detector_distance: float,
        detector_spacing: Pair = 1.0,
        output_shape: Names = VIEWS,
        input_shape: Names = VOLUME,
        batch_shape: Names | None = None,
        *,
        detector_offset: Pair = 0.0,
        origin: Sequence[float] | Tensor | None = None,
        heights: Tensor | None = None,
        detector: Literal["flat", "curved"] = "flat",
    ) -> None:
        check_angles("ConeBeam", angles, stacklevel=3)
        super().__init__(
            None, n_detectors, grid_size, origin, (input_shape, output_shape, batch_shape)
        )
        self.register_weight("angles", angles, "angles_shape", is_geometry=True)
        self.source_distance = check_real("ConeBeam", "source_distance", source_distance, above=0)
        self.detector_distance = check_real("ConeBeam", "detector_distance", detector_distance, 0)
        self.register_lengths("detector_spacing", detector_spacing, 2, above=0)
        self.register_lengths("detector_offset", detector_offset, 2)
        if heights is not None:
            check_real_tensor("ConeBeam", "heights", heights, angles.shape, " of angles")
            self.register_weight("heights", heights, "angles_shape", is_geometry=True)
        self.detector = check_detector("ConeBeam", detector)
        if all(can_read_values(self.weight_part(name)) for name in self._weights):
            axis = self.origin_of_tile(angles.double())[:2].unbind()
            radius = radius_of(self.grid_size[:2], axis) + 1
            if self.source_distance <= radius:
                raise ValueError(
                    f"ConeBeam: source_distance must be more than {radius:g} for a volume of "
                    f"{self.grid_size}, so that the source is outside of it, got "
                    f"{source_distance!r}"
                )

    @classmethod
    def from_poses(
        cls,
        source: Tensor,
        detector_middle: Tensor,
        u: Tensor,
        v: Tensor,
        n_detectors: int | Sequence[int],
        grid_size: int | Sequence[int],
        output_shape: Names = VIEWS,
        input_shape: Names = VOLUME,
        batch_shape: Names | None = None,
        *,
        origin: Sequence[float] | Tensor | None = None,
        detector: Literal["flat", "curved"] = "flat",
    ) -> Self:
        """Return the transform for any poses of the source and the detector, view by view.

        Parameters
        ----------
        source, detector_middle : Tensor
            Places of the source and of the middle of the detector, (A, 3).
        u, v : Tensor
            From one column of detectors to the next, and from one row to the next, (A, 3). On a
            curved detector, u is at its middle.

        The other parameters are those of the class. ASTRA's ``cone_vec`` has the same vectors.
        """
        poses = {"source": source, "detector_middle": detector_middle, "u": u, "v": v}
        names = input_shape, output_shape, batch_shape
        self = cls.of_poses(poses, n_detectors, grid_size, origin, names)
        self.detector = check_detector("ConeBeam", detector)
        if all(can_read_values(self.weight_part(name)) for name in self._weights):
            at = source.detach().double()
            at = at + self.origin_of_tile(at)
            is_inside = ((at > -1) & (at < at.new_tensor(self.grid_size))).all(1)
            if is_inside.any():
                raise ValueError(
                    "ConeBeam: each source must be outside of the volume, got one inside of it in "
                    f"view {int(is_inside.nonzero()[0])}"
                )
        return self

    def poses(self) -> Poses:
        """Return the poses for the current weights."""
        if "source" in self._weights:
            return self.given_poses("source")
        across, along, up = axes_at(self.weight_part("angles").double())
        (dv, du), (v, u) = map(self.length, ("detector_spacing", "detector_offset"))
        height = 0.0 * up
        if "heights" in self._weights:
            height = self.weight_part("heights").double()[:, None] * up
        radius = self.source_distance + self.detector_distance
        source = height - self.source_distance * along
        if self.detector == "curved":
            gamma = torch.as_tensor(u, dtype=torch.float64, device=up.device) / radius
            middle = radius * (gamma.sin() * across + gamma.cos() * along)
            across = gamma.cos() * across - gamma.sin() * along
        else:
            middle = u * across + radius * along
        return Poses(source, source + middle + v * up, du * across, dv * up)

    @property
    def is_circular(self) -> bool:
        """Whether the poses are those of angles about the axis of rotation."""
        return "angles" in self._weights and "heights" not in self._weights

    def rays(self, pose: Poses, along_u: Tensor, along_v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the source, and the way to each detector."""
        source, middle, u, v = pose
        way = middle - source
        if self.detector == "flat":
            return source, way + along_u * u + along_v * v
        up = v / _norm(v)
        height = (way * up).sum(-1, keepdim=True) * up
        level, step = way - height, _norm(u)
        radius = _norm(level)
        gamma = along_u * (step / radius)
        arc = gamma.sin() * (radius / step) * u + gamma.cos() * level
        return source, arc + height + along_v * v


def _norm(vectors: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return norms
