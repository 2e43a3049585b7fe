"""The base class of X-ray transforms of images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import can_read_values, check_integer
from nameddim import NamedDimension

from .._checks import sizes_of_grid
from ._line_integrals import Function, LineIntegrals, Names, check_angles, shape_of
from ._rays import Beam, Number
from ._symmetry import (
    SharedViews,
    back_projection_by_symmetry,
    line_integrals_by_symmetry,
    planned_views,
)


class XRayTransform(LineIntegrals):
    """Line integrals of an image along the rays of a beam, from all angles."""

    angles: Tensor
    detector_spacing: Number
    detector_offset: Number
    origin: Tensor | tuple[float, ...]
    _known_views: SharedViews | None = None

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
        n_detectors = check_integer(owner, "n_detectors", n_detectors, 1)
        sizes = sizes_of_grid(owner, grid_size, 2)
        is_below = type(self).__init__ is not XRayTransform.__init__
        check_angles(owner, angles, stacklevel=3 + is_below)
        lengths = {"detector_spacing": False, "detector_offset": False, "origin": True}
        super().__init__(shape_of(owner, input_shape, output_shape, batch_shape, 2, lengths))
        self.n_detectors = n_detectors
        self.grid_size = sizes
        self.register_weight("angles", angles, "angles_shape", is_geometry=True)
        self.register_lengths("detector_spacing", detector_spacing, None, above=0)
        self.register_lengths("detector_offset", detector_offset, None)
        middle = [(size - 1) / 2 for size in sizes]
        self.register_lengths("origin", middle if origin is None else origin, 2)

    def with_weights(self, change: Callable[[Tensor], Tensor]) -> NamedLinop:
        """Return the operator with ``change(w)`` for every w; see :class:`NamedLinop`.

        Memory is planned with angles that have no values: it needs to know which views are alike.
        """
        other = cast(XRayTransform, super().with_weights(change))
        if not can_read_values(other.angles):
            has_values = can_read_values(self.angles)
            known = planned_views(self.beam(), self.grid_size) if has_values else self._known_views
            vars(other)["_known_views"] = known
        return other

    @abstractmethod
    def beam(self) -> Beam:
        """Return the geometry of the rays for the current weights."""

    def functions(self) -> tuple[Function, Function]:
        """Return the transform of images (B, N0, N1) and its adjoint."""
        return self.functions_of(self.beam())

    def functions_of(self, beam: Beam) -> tuple[Function, Function]:
        """Return the transform along the rays of a beam, and its adjoint."""

        def forward(x: Tensor) -> Tensor:
            return line_integrals_by_symmetry(x, beam, self._known_views)

        def adjoint(y: Tensor) -> Tensor:
            return back_projection_by_symmetry(y, beam, self.grid_size, self._known_views)

        return forward, adjoint

    def onto_images(self, y: Tensor, beam: Beam) -> Tensor:
        """Return the back projection of lines along the rays of a beam."""
        forward, adjoint = self.functions_of(beam)
        return self.on_images(adjoint, forward, y)

    def size(self, dim: NamedDimension | str) -> int | None:
        """Return the length of ``dim``."""
        names = (*self.shape.other_shapes["image"], self.shape.other_shapes["rays"][1])
        sizes = dict(zip(names, (*self.grid_size, self.n_detectors), strict=True))
        size = sizes.get(NamedDimension.infer(dim))
        return super().size(dim) if size is None else size

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: a ray crosses the whole image."""
        if dim in self.shape.other_shapes["image"]:
            return "a ray crosses the whole image; cut along the angles or the batch"
        if dim == self.shape.other_shapes["rays"][1]:
            return "the rays of one angle are computed together; cut along the angles or the batch"
        return super().why_opaque(dim)
