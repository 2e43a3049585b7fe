"""X-ray transform of parallel rays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core import SliceableLinop, linear_function
from nameddim import NamedDimension, NamedShape, as_dims

from ._checks import check_number, check_real, sizes_of_grid
from ._joseph import ParallelRays, back_projected, projected

Function: TypeAlias = Callable[[Tensor], Tensor]


class ParallelBeam(SliceableLinop):
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
    Nothing is kept between calls: the weights of one angle are computed at a time. The result has
    the dtype to which those of the input and of the angles promote; half precision is computed in
    float32. An angle that is NaN or infinite makes its projection NaN. The adjoint takes time in
    proportion to 1 / ``detector_spacing`` where that is below 1.

    References
    ----------
    P. M. Joseph, "An improved algorithm for reprojecting rays through pixel images", IEEE
    Transactions on Medical Imaging 1 (1982).

    Examples
    --------
    >>> import torch
    >>> A = ParallelBeam(torch.tensor([0.0, math.pi / 2]), 3, (3, 3))
    >>> image = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    >>> A(image)
    tensor([[0., 6., 0.],
            [1., 2., 3.]])
    """

    angles: Tensor
    _is_real = True

    def __init__(
        self,
        angles: Tensor,
        n_detectors: int,
        grid_size: int | Sequence[int],
        detector_spacing: float = 1.0,
        output_shape: Sequence[NamedDimension | str] = ("A", "D"),
        input_shape: Sequence[NamedDimension | str] = ("Nx", "Ny"),
        batch_shape: Sequence[NamedDimension | str] | None = None,
    ) -> None:
        n_detectors = check_number("ParallelBeam", "n_detectors", n_detectors, 1)
        sizes = sizes_of_grid("ParallelBeam", grid_size, 2)
        if not isinstance(angles, Tensor) or not angles.is_floating_point():
            kind = angles.dtype if isinstance(angles, Tensor) else type(angles)
            raise TypeError(f"ParallelBeam: angles must be a tensor of real numbers, got {kind}")
        if angles.ndim != 1:
            raise ValueError(
                f"ParallelBeam: angles must have one dimension, got shape {tuple(angles.shape)}"
            )
        spacing = check_real("ParallelBeam", "detector_spacing", detector_spacing, 0, more=True)
        image, rays = as_dims(input_shape), as_dims(output_shape)
        for name, dims in (("input_shape", image), ("output_shape", rays)):
            if len(dims) != 2 or "..." in dims:
                raise ValueError(f"ParallelBeam: {name} must have 2 dimensions, got {dims}")
        batch = as_dims(("...",) if batch_shape is None else batch_shape)
        names = {"image": image, "rays": rays, "angles_shape": rays[:1]}
        shape = NamedShape((*batch, *image), (*batch, *rays), **names)
        super().__init__(shape)
        self.n_detectors, self.detector_spacing = n_detectors, spacing
        self.grid_size = sizes
        self.register_weight("angles", angles, "angles_shape")

    @staticmethod
    def fn(linop: ParallelBeam, x: Tensor, /) -> Tensor:
        """Return the line integrals of x."""
        forward, adjoint = linop._pair()
        return linop._on_images(forward, adjoint, x)

    @staticmethod
    def adj_fn(linop: ParallelBeam, x: Tensor, /) -> Tensor:
        """Return the back projection of x."""
        forward, adjoint = linop._pair()
        return linop._on_images(adjoint, forward, x)

    def _pair(self) -> tuple[Function, Function]:
        beam = ParallelRays(self.weight_part("angles"), self.n_detectors, self.detector_spacing)

        def forward(x: Tensor) -> Tensor:
            return projected(x, beam)

        def adjoint(y: Tensor) -> Tensor:
            return back_projected(y, beam, self.grid_size)

        return forward, adjoint

    def _on_images(self, function: Function, adjoint: Function, x: Tensor) -> Tensor:
        """Return ``function`` of the images (B, ., .) in x, real and imaginary parts by turns."""
        angles = self.weight_part("angles")
        dtype = torch.promote_types(x.dtype, angles.dtype)
        # Half precision cannot tell the pixels of a row from each other.
        x = x.to(torch.promote_types(dtype, torch.float32))
        parts = torch.stack([x.real, x.imag]) if x.is_complex() else x.unsqueeze(0)
        images = parts.reshape(math.prod(parts.shape[:-2]), *x.shape[-2:])
        if angles.requires_grad and torch.is_grad_enabled():
            y = function(images)
        else:
            y = linear_function(function, adjoint, images)
        y = y.reshape(*parts.shape[:-2], *y.shape[1:])
        return (torch.complex(y[0], y[1]) if x.is_complex() else y[0]).to(dtype)

    @property
    def is_adjoint(self) -> bool:
        """Whether this is the adjoint: the back projection."""
        return bool(self.fn is not ParallelBeam.fn)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``."""
        names = (*self.shape.other_shapes["image"], self.shape.other_shapes["rays"][1])
        known = dict(zip(names, (*self.grid_size, self.n_detectors), strict=True))
        found = known.get(NamedDimension.infer(dim))
        return super().size(dim) if found is None else found

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: a ray crosses the whole image."""
        if dim in self.shape.other_shapes["image"]:
            return "a ray crosses the whole image; cut along the angles or the batch"
        if dim == self.shape.other_shapes["rays"][1]:
            return "the rays of one angle are computed together; cut along the angles or the batch"
        return super().why_opaque(dim)
