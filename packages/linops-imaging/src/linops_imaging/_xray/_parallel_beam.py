"""X-ray transform of parallel rays."""

from __future__ import annotations

from ._beams import ParallelRays
from ._xray_transform import XRayTransform


class ParallelBeam(XRayTransform):
    r"""The X-ray transform of an image along parallel rays,

    .. math:: p(\phi, s) = \int x(s \cos \phi - t \sin \phi, \; s \sin \phi + t \cos \phi) \, dt,

    by Joseph's method: where a ray crosses a row of pixels, the image is interpolated linearly.
    Lengths are in pixels. Coordinate 0 belongs to image axis 0. The origin is the middle of the
    image, index (N - 1) / 2, and the middle of the detectors. The adjoint is matched: it is the
    transpose of the same matrix.

    Parameters
    ----------
    angles : Tensor
        Real, (A,), in radians. Their dimension can be sliced. Gradients reach them. Line integrals
        are piecewise linear in the tangent of the angle.
    n_detectors : int
        D, at least 1.
    grid_size : (int, int)
        Size of the image.
    detector_spacing : float
        Distance between neighbouring rays, positive.
    output_shape : (dimension, dimension)
        Dimensions of angles and detectors.
    input_shape : (dimension, dimension)
        Dimensions of the image. They cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image, such as the slices of a volume. They can be sliced. Any
        dimensions by default.

    Raises
    ------
    TypeError
        If the angles are not real numbers, or a number is not an integer.
    ValueError
        If a number is out of range, or there is a wrong number of dimensions.

    Notes
    -----
    Nothing is kept between calls: the weights are computed for one angle at a time. Two angles
    share their weights if one view is the other one mirrored or turned by 90 degrees (by 180
    degrees if the image is not square). Differences of the angles up to 4 times the machine epsilon
    are ignored. So angles that divide a half circle equally, beginning at 0, take about half the
    time of other angles. The images of a batch share the weights as well: 16 images at once take a
    quarter to a third of the time of 16 images one by one. Nothing is shared while gradients to the
    angles are recorded, or under transforms.

    The result has the dtype of the input, for angles of any dtype; integers give float32. Half
    precision is computed in float32. Gradients to the angles have their dtype. An angle that is NaN
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
        return ParallelRays(self.weight_part("angles"), self.n_detectors, self.detector_spacing)
