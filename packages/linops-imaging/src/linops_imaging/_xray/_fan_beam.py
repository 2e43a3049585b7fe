"""X-ray transform of a fan of rays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from linops_core.siblings import can_read_values, check_real

from ._beams import FanRays, radius_of
from ._line_integrals import Names
from ._rays import Number
from ._xray_transform import XRayTransform


class FanBeam(XRayTransform):
    r"""The X-ray transform of an image along rays from a source to detectors,

    .. math:: p(\phi, u) = \int x(S + q \, (D_u - S) / |D_u - S|) \, dq, \qquad
        S = -R \, e_t, \quad D_u = u \, e_s + R_D \, e_t,

    with :math:`e_s = (\cos \phi, \sin \phi)` and :math:`e_t = (-\sin \phi, \cos \phi)`. Curved
    detectors are on a circle about the source, at equal angles: the ray to the detector at u has
    the angle :math:`\gamma = u / (R + R_D)` to the middle ray. The method, units and coordinates
    are those of :class:`ParallelBeam`, and the adjoint is matched. For large R the rays become
    parallel, as in :class:`ParallelBeam`.

    Parameters
    ----------
    angles, n_detectors, grid_size
        As in :class:`ParallelBeam`.
    source_distance : float
        R, from the source to the origin. The source must be at least a pixel outside of the circle
        around the image.
    detector_distance : float
        :math:`R_D`, from the origin to the detectors, not negative. Use 0 if the spacing is given
        at the origin.
    detector_spacing : float or Tensor
        Distance of neighbouring detectors, positive; along the circle for curved detectors.
    output_shape, input_shape, batch_shape
        As in :class:`ParallelBeam`.
    detector_offset : float or Tensor
        Of the middle of the detectors from the ray through the origin, in the direction of u.
    origin
        As in :class:`ParallelBeam`.
    detector : {"flat", "curved"}
        Whether the detectors are on a line or on a circle about the source.

    Raises
    ------
    TypeError
        If the angles are not real numbers, or an argument is not a number.
    ValueError
        If a number is out of range, or there is a wrong number of dimensions.

    Notes
    -----
    As in :class:`ParallelBeam`. The time of the adjoint is proportional to the largest number of
    rays that cross one pixel, which is a pixel near the source.

    Examples
    --------
    >>> import torch
    >>> A = FanBeam(torch.zeros(1), 3, (3, 3), source_distance=4, detector_distance=4)
    >>> image = torch.zeros(3, 3)
    >>> image[1] = 1.0
    >>> A(image)[0, 1]  # along a row of three pixels
    tensor(3.)
    """

    def __init__(
        self,
        angles: Tensor,
        n_detectors: int,
        grid_size: int | Sequence[int],
        source_distance: float,
        detector_distance: float,
        detector_spacing: Number = 1.0,
        output_shape: Names = ("A", "D"),
        input_shape: Names = ("Nx", "Ny"),
        batch_shape: Names | None = None,
        *,
        detector_offset: Number = 0.0,
        origin: Sequence[float] | Tensor | None = None,
        detector: Literal["flat", "curved"] = "flat",
    ) -> None:
        super().__init__(
            angles,
            n_detectors,
            grid_size,
            detector_spacing,
            output_shape,
            input_shape,
            batch_shape,
            detector_offset=detector_offset,
            origin=origin,
        )
        self.source_distance = check_real("FanBeam", "source_distance", source_distance, 0)
        self.detector_distance = check_real("FanBeam", "detector_distance", detector_distance, 0)
        self.detector = check_detector("FanBeam", detector)
        if not all(can_read_values(self.weight_part(name)) for name in self._weights):
            return  # whose values cannot be read
        beam = self.beam()
        radius = radius_of(self.grid_size, beam.origin) + 1
        if self.source_distance <= radius:
            raise ValueError(
                f"FanBeam: source_distance must be more than {radius:g} for an image of "
                f"{self.grid_size}, so that the source is outside of it, got {source_distance!r}"
            )
        widest = float(beam.fan().detach().abs().max())
        if widest >= math.pi / 2:
            raise ValueError(
                "FanBeam: curved detectors must be less than 90 degrees away from the ray through "
                f"the origin, got {math.degrees(widest):.1f} degrees"
            )

    def beam(self) -> FanRays:
        """Return the geometry of the rays for the current weights."""
        names = "detector_spacing", "detector_offset", "origin"
        spacing, offset, origin = map(self.length, names)
        return FanRays(
            self.weight_part("angles"),
            self.n_detectors,
            spacing,
            offset,
            origin,
            self.source_distance,
            self.detector_distance,
            self.detector == "curved",
        )


def check_detector(owner: str, detector: str) -> str:
    """Return ``detector``; raise an error unless it is "flat" or "curved"."""
    if detector not in ("flat", "curved"):
        raise ValueError(f"{owner}: detector must be 'flat' or 'curved', got {detector!r}")
    return detector
