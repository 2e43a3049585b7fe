"""The base class of X-ray transforms: weights, dimensions, and the handling of batches."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core import SliceableLinop, linear_function
from nameddim import AnyDim, NamedDimension, NamedShape, as_dims

from .._checks import check_number, check_real, sizes_of_grid, unused_names
from .._plain import is_plain
from .._units import warn_of_degrees
from ._rays import Beam, Number
from ._symmetry import back_projected, projected

Function: TypeAlias = Callable[[Tensor], Tensor]
Names: TypeAlias = Sequence[NamedDimension | str]


class XRayTransform(SliceableLinop):
    """Line integrals of an image along the rays of a beam, from all angles."""

    angles: Tensor
    detector_spacing: Number
    detector_offset: Number
    origin: Tensor | tuple[float, ...]
    _is_real = True
    _geometry = ("angles", "detector_spacing", "detector_offset", "origin")

    def __init__(
        self,
        angles: Tensor,
        n_detectors: int,
        grid_size: int | Sequence[int],
        detector_spacing: Number = 1.0,
        output_shape: Names = ("A", "D"),
        input_shape: Names = ("Nx", "Ny"),
        batch_shape: Names | None = None,
        *,
        detector_offset: Number = 0.0,
        origin: Sequence[float] | Tensor | None = None,
    ) -> None:
        owner = type(self).__name__
        n_detectors = check_number(owner, "n_detectors", n_detectors, 1)
        sizes = sizes_of_grid(owner, grid_size, 2)
        if not isinstance(angles, Tensor) or not angles.is_floating_point():
            kind = angles.dtype if isinstance(angles, Tensor) else type(angles)
            raise TypeError(f"{owner}: angles must be a tensor of real numbers, got {kind}")
        if angles.ndim != 1:
            raise ValueError(
                f"{owner}: angles must have one dimension, got shape {tuple(angles.shape)}"
            )
        is_below = type(self).__init__ is not XRayTransform.__init__
        warn_of_degrees(owner, angles, stacklevel=3 + is_below)
        image, rays = as_dims(input_shape), as_dims(output_shape)
        for name, dims in (("input_shape", image), ("output_shape", rays)):
            if len(dims) != 2 or "..." in dims:
                raise ValueError(f"{owner}: {name} must have 2 dimensions, got {dims}")
        if set(image) & set(rays):
            raise ValueError(
                f"{owner}: output_shape must have other names than input_shape, got {rays} and "
                f"{image}"
            )
        batch = as_dims(("...",) if batch_shape is None else batch_shape)
        axes = unused_names((AnyDim(0),), (*batch, *image, *rays))
        names = {"image": image, "rays": rays, "angles_shape": rays[:1], "origin_shape": axes}
        shape = NamedShape((*batch, *image), (*batch, *rays), **names, number_shape=())
        super().__init__(shape)
        self.n_detectors = n_detectors
        self.grid_size = sizes
        self.register_weight("angles", angles, "angles_shape")
        if origin is None:
            origin = [(size - 1) / 2 for size in sizes]
        self._register_length("detector_spacing", detector_spacing, 0, more=True)
        self._register_length("detector_offset", detector_offset)
        if isinstance(origin, Tensor):
            check_lengths(owner, "origin", origin, 2)
            self.register_weight("origin", origin, "origin_shape")
        else:
            self.origin = tuple([check_real(owner, "origin", at) for at in origin])
            if len(self.origin) != 2:
                raise ValueError(f"{owner}: origin must be an index along 2 axes, got {origin!r}")

    def _register_length(
        self, name: str, value: Number, least: float = -math.inf, *, more: bool = False
    ) -> None:
        owner = type(self).__name__
        if isinstance(value, Tensor):
            check_lengths(owner, name, value)
            self.register_weight(name, value, "number_shape")
        if not isinstance(value, Tensor) or is_plain(value):
            own = value.detach() if isinstance(value, Tensor) else value
            number = check_real(owner, name, own, least, more=more)
            if not isinstance(value, Tensor):
                setattr(self, name, number)

    def _length(self, name: str) -> Number:
        return self.weight_part(name).double() if name in self._weights else getattr(self, name)

    def _origin(self) -> Sequence[Number]:
        if isinstance(self.origin, Tensor):
            return self.weight_part("origin").double().unbind()
        return self.origin

    @abstractmethod
    def beam(self) -> Beam:
        """Return the geometry of the rays for the current angles."""

    @staticmethod
    def fn(linop: XRayTransform, x: Tensor, /) -> Tensor:
        """Return the line integrals of x."""
        forward, adjoint = linop._pair(linop.beam())
        return linop._on_images(forward, adjoint, x)

    @staticmethod
    def adj_fn(linop: XRayTransform, x: Tensor, /) -> Tensor:
        """Return the back projection of x."""
        return linop.onto_images(x, linop.beam())

    def onto_images(self, y: Tensor, beam: Beam) -> Tensor:
        """Return the back projection of lines along the rays of a beam."""
        forward, adjoint = self._pair(beam)
        return self._on_images(adjoint, forward, y)

    def _pair(self, beam: Beam) -> tuple[Function, Function]:
        def forward(x: Tensor) -> Tensor:
            return projected(x, beam)

        def adjoint(y: Tensor) -> Tensor:
            return back_projected(y, beam, self.grid_size)

        return forward, adjoint

    def _on_images(self, function: Function, adjoint: Function, x: Tensor) -> Tensor:
        """Return ``function`` of all images in x; real and imaginary parts are separate images."""
        geometry = [self.weight_part(name) for name in self._weights]
        is_number = x.is_floating_point() or x.is_complex()
        dtype = x.dtype if is_number else torch.float32
        # Half precision cannot tell the pixels of a row from each other.
        x = x.to(torch.promote_types(dtype, torch.float32))
        parts = torch.stack([x.real, x.resolve_conj().imag]) if x.is_complex() else x.unsqueeze(0)
        images = parts.reshape(math.prod(parts.shape[:-2]), *x.shape[-2:])
        if any(part.requires_grad for part in geometry) and torch.is_grad_enabled():
            y = function(images)
        else:
            y = linear_function(function, adjoint, images, *geometry)
        y = y.reshape(*parts.shape[:-2], *y.shape[1:])
        return (torch.complex(y[0], y[1]) if x.is_complex() else y[0]).to(dtype)

    @property
    def is_adjoint(self) -> bool:
        """Whether this is the adjoint: the back projection."""
        return bool(self.fn is not XRayTransform.fn)

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


def check_lengths(owner: str, name: str, value: Tensor, *shape: int) -> None:
    """Raise an error unless a tensor has real numbers and this shape."""
    if not value.is_floating_point():
        raise TypeError(f"{owner}: {name} must have real numbers, got {value.dtype}")
    if value.shape != shape:
        raise ValueError(f"{owner}: {name} must have the shape {shape}, got {tuple(value.shape)}")
