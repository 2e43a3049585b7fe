"""X-ray transform of parallel rays."""

from __future__ import annotations

from ._beams import ParallelRays
from ._xray_transform import XRayTransform


class ParallelBeam(XRayTransform):
    r"""The X-ray transform of an image along parallel rays,

    .. math:: p(\phi, s) = \int x(s \cos \phi - t \sin \phi, \; s \sin \phi + t \cos \phi) \, dt,

    by Joseph's method: where a ray crosses a row of pixels, the image is interpolated linearly.
    Lengths are in pixels. Coordinate 0 belongs to image axis 0. The axis of rotation is the origin.
    Detector d is at :math:`s = (d - (D - 1) / 2) \, \Delta + c` for the spacing :math:`\Delta` and
    the offset c. The adjoint is matched: it is the transpose of the same matrix.

    Parameters
    ----------
    angles : Tensor
        Real, (A,), in radians. Their dimension can be sliced. Gradients reach them. Line integrals
        are piecewise linear in the tangent of the angle.
    n_detectors : int
        D, at least 1.
    grid_size : (int, int)
        Size of the image.
    detector_spacing : float or Tensor
        Distance between neighbouring rays, positive. For this and the next two, a tensor is a
        weight that gradients reach; a number is not.
    output_shape : (dimension, dimension)
        Dimensions of angles and detectors.
    input_shape : (dimension, dimension)
        Dimensions of the image. They cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image, such as the slices of a volume. They can be sliced. Any
        dimensions by default.
    detector_offset : float or Tensor
        c, of the middle of the detectors from the projected axis of rotation. If that is seen at
        the detector with index i, this is :math:`((D - 1) / 2 - i) \, \Delta`.
    origin : (float, float) or Tensor, optional
        Index of the pixel, with fractions, that the axis of rotation crosses. The middle of the
        image by default, :math:`(N - 1) / 2`.

    Raises
    ------
    TypeError
        If the angles or other tensors are not of real numbers, or a number is not an integer.
    ValueError
        If a number is out of range, or a tensor or argument has a wrong number of dimensions.

    Notes
    -----
    Angles that divide a half circle equally, beginning at 0, take about half the time of others,
    and a batch of images less than its images one by one. Nothing is kept between calls.

    The result has the dtype of the input, for angles of any dtype; integers give float32. Half
    precision is computed in float32. Gradients to the geometry have its dtype. An angle that is NaN
    or infinite makes its projection NaN. For a ``detector_spacing`` below 1, the time of the
    adjoint is proportional to its inverse.

    References
    ----------
    P. M. Joseph, "An improved algorithm for reprojecting rays through pixel images", IEEE
    Transactions on Medical Imaging 1 (1982).

    Examples
    --------
    >>> import math
    >>> import torch
    >>> A = ParallelBeam(torch.tensor([0.0, math.pi / 2]), 3, (3, 3))
    >>> image = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    >>> A(image)
    tensor([[0., 6., 0.],
            [1., 2., 3.]])
    """

    def beam(self) -> ParallelRays:
        """Return the geometry of the rays for the current angles."""
        lengths = map(self.length, ("detector_spacing", "detector_offset", "origin"))
        return ParallelRays(self.weight_part("angles"), self.n_detectors, *lengths)
