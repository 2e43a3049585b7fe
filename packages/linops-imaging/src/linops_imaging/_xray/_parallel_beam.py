"""X-ray transform of parallel rays."""

from __future__ import annotations

from ._beams import ParallelRays
from ._xray_transform import XRayTransform


class ParallelBeam(XRayTransform):
    r"""The X-ray transform of an image along parallel rays,

    .. math:: p(\phi, s) = \int x(s \cos \phi - t \sin \phi, \; s \sin \phi + t \cos \phi) \, dt,

    by Joseph's method: where a ray crosses a row of pixels, the image is interpolated linearly.
    Lengths are in pixels, coordinate 0 is that of image axis 0, and the origin is the middle of the
    image, index (N - 1) / 2, and of the detectors. The adjoint is matched: it is the transpose of
    the same matrix.

    Parameters
    ----------
    angles : Tensor
        Real, (A,), in radians: a dimension of the output that can be sliced. Gradients reach them;
        what one angle contributes is piecewise linear in its tangent.
    n_detectors : int
        D, at least 1.
    grid_size : (int, int)
        Of the image.
    detector_spacing : float
        Distance of neighbouring rays, positive.
    output_shape : (dimension, dimension)
        Of angles and detectors.
    input_shape : (dimension, dimension)
        Of the image. Cannot be sliced.
    batch_shape : sequence of dimensions, optional
        Dimensions before the image, the slices of a volume say, which can be sliced; any by
        default.

    Raises
    ------
    TypeError
        If the angles are not real numbers, or a number is no integer.
    ValueError
        If a number or the number of dimensions is not as said.

    Notes
    -----
    Nothing is kept between calls: the weights of one angle are computed at a time. Angles share
    them where one is the other mirrored or turned by 90 degrees (by 180, if the image is not
    square), up to 4 times the machine epsilon of the result. So angles that divide a half circle
    equally, beginning at 0, take about half the time of others. Images of a batch share them, too:
    16 at once take a quarter to a third of the time of 16 one by one. Where gradients to the angles
    are recorded, and under transforms, nothing is shared.

    The result has the dtype to which those of the input and of the angles promote; half precision
    is computed in float32. An angle that is NaN or infinite makes its projection NaN. The adjoint
    takes time in proportion to 1 / ``detector_spacing`` where that is below 1.

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
        """Return where the rays are, with the angles as they are now."""
        return ParallelRays(self.weight_part("angles"), self.n_detectors, self.detector_spacing)
