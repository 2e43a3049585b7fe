"""X-ray transform of a volume along parallel rays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from ._cone_beam import VIEWS, VOLUME, Pair
from ._line_integrals import Names, check_angles
from ._volume_transform import Poses, VolumeTransform, axes_at


class ParallelBeam3D(VolumeTransform):
    r"""The X-ray transform of a volume along parallel rays of any direction,

    .. math:: p(\phi, v, u) = \int x(u \, e_s + v \, e_v + q \, d) \, dq, \qquad
        d = \cos \alpha \, e_t + \sin \alpha \, e_z, \quad
        e_v = \cos \alpha \, e_z - \sin \alpha \, e_t,

    with :math:`e_s = (\cos \phi, \sin \phi, 0)`, :math:`e_t = (-\sin \phi, \cos \phi, 0)` and
    :math:`e_z = (0, 0, 1)`. The rays are inclined by the tilt :math:`\alpha` to the plane across
    the axis of rotation, as in laminography. Without a tilt, each slice of the volume has its own
    row: :class:`ParallelBeam` with the slices as a batch is faster. The method and the adjoint are
    those of :class:`ConeBeam`. :meth:`from_poses` makes the transform of any directions and
    detectors, such as those of electron tomography about two axes.

    Parameters
    ----------
    angles, n_detectors, grid_size
        As in :class:`ConeBeam`.
    detector_spacing, output_shape, input_shape, batch_shape, detector_offset, origin
        As in :class:`ConeBeam`.
    tilt : float or Tensor
        :math:`\alpha`, in radians. A tensor has no dimensions and may have a gradient.

    Raises
    ------
    TypeError
        If angles or other tensors are not of real numbers, or an argument is not a number.
    ValueError
        If a number is out of range, or there is a wrong number of numbers or dimensions.

    Notes
    -----
    As in :class:`ConeBeam`.

    Examples
    --------
    >>> import torch
    >>> A = ParallelBeam3D(torch.zeros(1), (3, 3), (3, 3, 3))
    >>> volume = torch.zeros(3, 3, 3)
    >>> volume[2, :, 1] = 1.0
    >>> A(volume)[0, 1]
    tensor([0., 0., 3.])
    """

    tilt: float | Tensor

    def __init__(
        self,
        angles: Tensor,
        n_detectors: int | Sequence[int],
        grid_size: int | Sequence[int],
        detector_spacing: Pair = 1.0,
        output_shape: Names = VIEWS,
        input_shape: Names = VOLUME,
        batch_shape: Names | None = None,
        *,
        detector_offset: Pair = 0.0,
        origin: Sequence[float] | Tensor | None = None,
        tilt: float | Tensor = 0.0,
    ) -> None:
        check_angles("ParallelBeam3D", angles, stacklevel=3)
        super().__init__(
            None, n_detectors, grid_size, origin, (input_shape, output_shape, batch_shape)
        )
        self.register_weight("angles", angles, "angles_shape", is_geometry=True)
        self.register_lengths("detector_spacing", detector_spacing, 2, above=0)
        self.register_lengths("detector_offset", detector_offset, 2)
        self.register_lengths("tilt", tilt, None)

    @classmethod
    def from_poses(
        cls,
        direction: Tensor,
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
    ) -> Self:
        """Return the transform for any directions and poses of the detector, view by view.

        Parameters
        ----------
        direction : Tensor
            Of the rays, (A, 3), of any length.
        detector_middle : Tensor
            Place of the middle of the detector, (A, 3).
        u, v : Tensor
            From one column of detectors to the next, and from one row to the next, (A, 3).

        The other parameters are those of the class. ASTRA's ``parallel3d_vec`` has the same
        vectors.
        """
        poses = {"direction": direction, "detector_middle": detector_middle, "u": u, "v": v}
        names = input_shape, output_shape, batch_shape
        return cls.of_poses(poses, n_detectors, grid_size, origin, names)

    def poses(self) -> Poses:
        """Return the poses for the current weights."""
        if "direction" in self._weights:
            return self.given_poses("direction")
        across, along, up = axes_at(self.weight_part("angles").double())
        tilt = torch.as_tensor(self.length("tilt"), dtype=up.dtype, device=up.device)
        direction = tilt.cos() * along + tilt.sin() * up
        up = tilt.cos() * up - tilt.sin() * along
        (dv, du), (v, u) = map(self.length, ("detector_spacing", "detector_offset"))
        return Poses(direction, u * across + v * up, du * across, dv * up)

    def rays(self, pose: Poses, along_u: Tensor, along_v: Tensor) -> tuple[Tensor, Tensor]:
        """Return the detectors, and the direction of all rays."""
        return pose.detector + along_u * pose.u + along_v * pose.v, pose.source
