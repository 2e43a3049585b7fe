"""The base class of X-ray transforms: names of dimensions, lengths, and the handling of batches."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from linops_core import SliceableLinop, linear_function
from linops_core.siblings import can_read_values, check_real, is_recorded, unused_names
from nameddim import AnyDim, NamedDimension, NamedShape, as_dims

from .._checks import check_real_tensor, one_for_each
from .._units import warn_of_degrees

Function: TypeAlias = Callable[[Tensor], Tensor]
Names: TypeAlias = Sequence[NamedDimension | str]


class LineIntegrals(SliceableLinop):
    """Line integrals of an image or a volume along the rays of all views of a scan."""

    is_real = True

    @abstractmethod
    def functions(self) -> tuple[Function, Function]:
        """Return the transform of real images (B, ...) and its adjoint, for the current weights."""

    @staticmethod
    def fn(linop: LineIntegrals, x: Tensor, /) -> Tensor:
        """Return the line integrals of x."""
        forward, adjoint = linop.functions()
        return linop.on_images(forward, adjoint, x)

    @staticmethod
    def adj_fn(linop: LineIntegrals, x: Tensor, /) -> Tensor:
        """Return the back projection of x."""
        forward, adjoint = linop.functions()
        return linop.on_images(adjoint, forward, x)

    def on_images(self, function: Function, adjoint: Function, x: Tensor) -> Tensor:
        """Return ``function`` of all images in x; real and imaginary parts are separate images."""
        n_axes = len(self.shape.other_shapes["image"])
        geometry = [self.weight_part(name) for name in self._weights]
        is_number = x.is_floating_point() or x.is_complex()
        dtype = x.dtype if is_number else torch.float32
        # Half precision cannot tell the pixels of a row from each other.
        x = x.to(torch.promote_types(dtype, torch.float32))
        parts = torch.stack([x.real, x.resolve_conj().imag]) if x.is_complex() else x.unsqueeze(0)
        images = parts.reshape(math.prod(parts.shape[:-n_axes]), *x.shape[-n_axes:])
        if is_recorded(*geometry):
            y = function(images)
        else:
            y = linear_function(function, adjoint, images, *geometry)
        y = y.reshape(*parts.shape[:-n_axes], *y.shape[1:])
        return (torch.complex(y[0], y[1]) if x.is_complex() else y[0]).to(dtype)

    def length(self, name: str) -> Any:
        """Return numbers that are attributes, or the tensor of a weight in double precision."""
        return self.weight_part(name).double() if name in self._weights else getattr(self, name)

    def register_lengths(
        self,
        name: str,
        value: Any,
        n: int | None,
        least: float = -math.inf,
        *,
        above: float = -math.inf,
    ) -> None:
        """Set one number or n as an attribute, or register a tensor of them as a weight."""
        owner = type(self).__name__
        if isinstance(value, Tensor):
            check_real_tensor(owner, name, value, () if n is None else (n,))
            if can_read_values(value):
                for number in value.detach().reshape(-1).tolist():
                    check_real(owner, name, number, least, above=above)
            self.register_weight(name, value, f"{name}_shape", is_geometry=True)
        elif n is None:
            setattr(self, name, check_real(owner, name, value, least, above=above))
        else:
            numbers = one_for_each(value, n)
            checked = tuple([check_real(owner, name, x, least, above=above) for x in numbers])
            if len(checked) != n:
                raise ValueError(f"{owner}: {name} must be {n} numbers, got {value!r}")
            setattr(self, name, checked)


def shape_of(
    owner: str, image: Names, rays: Names, batch: Names | None, n: int, lengths: dict[str, bool]
) -> NamedShape:
    """Return the shape with ``image`` and ``rays`` of n dimensions, and those of the lengths.

    ``lengths`` says of each name whether it has an axis.

    Raises
    ------
    ValueError
        If there is a wrong number of dimensions, or a dimension is both of the image and of rays.
    """
    image, rays = as_dims(image), as_dims(rays)
    for name, dims in (("input_shape", image), ("output_shape", rays)):
        if len(dims) != n or "..." in dims:
            raise ValueError(f"{owner}: {name} must have {n} dimensions, got {dims}")
    if set(image) & set(rays):
        raise ValueError(
            f"{owner}: output_shape must have other names than input_shape, got {rays} and {image}"
        )
    batch = as_dims(("...",) if batch is None else batch)
    axes = unused_names((AnyDim(0),) * sum(lengths.values()), (*batch, *image, *rays))
    axis = iter(axes)
    names = {"image": image, "rays": rays, "angles_shape": rays[:1]}
    for name, has_axis in lengths.items():
        names[f"{name}_shape"] = (next(axis),) if has_axis else ()
    return NamedShape((*batch, *image), (*batch, *rays), **names)


def check_angles(owner: str, angles: Tensor, stacklevel: int) -> None:
    """Raise an error unless they are a list of real numbers; warn of degrees."""
    check_real_tensor(owner, "angles", angles)
    if angles.ndim != 1:
        raise ValueError(
            f"{owner}: angles must have one dimension, got shape {tuple(angles.shape)}"
        )
    warn_of_degrees(owner, angles, stacklevel=stacklevel + 1)
