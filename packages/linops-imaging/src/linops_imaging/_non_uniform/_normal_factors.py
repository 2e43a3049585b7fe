"""The factors of the normal operator of a NUFFT, if it is a convolution of images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, cast

from torch import Tensor

from linops_core import Chain, Dense, Diagonal, Interpolate, NamedLinop, Normal
from linops_core.siblings import acts_as, axis_of
from nameddim import NamedDimension

Dims: TypeAlias = tuple[NamedDimension, ...]


class Transform(Protocol):
    """The attributes of a NUFFT that are used here."""

    grid_size: tuple[int, ...]
    toeplitz: bool

    @property
    def ishape(self) -> Dims:
        """Dimensions of the input."""

    @property
    def oshape(self) -> Dims:
        """Dimensions of the output."""

    @property
    def interpolate(self) -> Interpolate:
        """The factor that has the locations."""

    @property
    def grid_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Axes of the image on its side, and axes of the points on theirs."""


class NormalFactors(NamedTuple):
    r"""A composition that convolves images, in one of three forms.

    - :math:`F^H D F` with a NUFFT F and weights D of its frames and points.
    - :math:`B^H F^H D F B` with a :class:`linops_core.Dense` B that makes frames of coefficients:
      :math:`x_t = \sum_c w_{tc} x_c`. As :math:`F_t` is linear, it is :math:`\sum_c w_{tc} F_t
      x_c`, a transform of each coefficient to the points of all frames.
    - :math:`F^H M^H D M F` with a Dense M that adds the transforms of some images with weights of
      the points: :math:`y_p = \sum_c w_{pc} (F x_c)_p`.
    """

    transform: Transform
    diagonal: Diagonal | None
    is_squared: bool
    """Whether the normal of ``diagonal`` is between the transforms."""
    right: Dense | None
    """B or M."""
    left: Dense | None
    """The adjoint of it."""
    input_dims: Dims
    """Of the input: the coefficient if there is one, frames, image."""
    output_dims: Dims
    """The same of the output."""
    merged: frozenset[NamedDimension]
    """Frames whose points are added up."""

    @classmethod
    def of(cls, chain: NamedLinop) -> NormalFactors | None:
        """Return the factors of a chain, or None if it has another form."""
        if not acts_as(chain, Chain):
            return None
        linops, right, left = [*chain.linops], None, None
        makes_frames = acts_as(linops[0], Dense)
        if makes_frames:
            right, *linops, left = linops
        first, *inner, last = linops
        if not makes_frames and len(inner) > 1 and acts_as(inner[0], Dense):
            right, *inner, left = inner
        diagonal = diagonal_of(inner[0]) if inner else None
        if len(inner) != (diagonal is not None):
            return None
        transform, back = cast(Transform, first), cast(Transform, last)
        shapes = transform.interpolate.shape.other_shapes
        of_points, frames = {*shapes["locs_shape"]}, shapes["frames"]
        if diagonal is not None and not {*diagonal.shape.other_shapes["weight_shape"]} <= of_points:
            return None
        column, row, merged = Dims(), Dims(), {*Dims()}
        if right is not None and left is not None:
            mixing, mixing_back = _Mixing.of(right), _Mixing.of(left.H)
            if mixing is None or mixing_back is None or mixing.frames != mixing_back.frames:
                return None
            for each in (mixing, mixing_back):
                if each.coefficient in frames or not each.weighted <= of_points:
                    return None
            column, row = (mixing.coefficient,), (mixing_back.coefficient,)
            merged = mixing.frames
            if bool(merged) != makes_frames or not merged <= {*frames}:
                return None
        kept = [dim for dim in frames if dim not in merged]
        image = [transform.ishape[axis] for axis in transform.grid_axes[0]]
        image_back = [back.oshape[axis] for axis in back.grid_axes[0]]
        input_dims, output_dims = (*column, *kept, *image), (*row, *kept, *image_back)
        others = [dim for dim in chain.ishape if dim not in input_dims]
        if others != [dim for dim in chain.oshape if dim not in output_dims]:
            return None
        return cls(
            transform,
            diagonal,
            bool(inner) and acts_as(inner[0], Normal),
            cast("Dense | None", right),
            cast("Dense | None", left),
            input_dims,
            output_dims,
            frozenset(merged),
        )

    def tensors(self) -> list[Tensor]:
        """Return the locations and all weights, in the same order for the adjoint."""
        weights = [factor.weight for factor in (self.diagonal, self.right, self.left) if factor]
        return [
            self.transform.interpolate.locs,
            *{id(w): w for w in sorted(weights, key=id)}.values(),
        ]

    def is_real(self) -> bool:
        """Whether the weights between the transforms are real."""
        return self.is_squared or self.diagonal is None or not self.diagonal.weight.is_complex()

    def of_points(self) -> Tensor | None:
        """Return a view of the weights between the transforms, as frames and points."""
        if self.diagonal is None:
            return None
        names = self.diagonal.ishape
        weight = self.diagonal.aligned_weight(len(names))
        return self._as_points(weight[(None,) * (len(names) - weight.ndim)], names)

    def coefficients(self, factor: Dense, dim: NamedDimension) -> Sequence[Tensor]:
        """Return views of the weights of each coefficient, as frames and points."""
        weight = factor.weight_part("weight")
        weight = weight.conj() if factor.is_adjoint == (factor is self.right) else weight
        names = factor.shape.other_shapes["weightshape"]
        at = names.index(dim)
        rest = (*names[:at], *names[at + 1 :])
        return [self._as_points(column, rest) for column in weight.unbind(at)]

    def _as_points(self, weight: Tensor, names: Sequence[NamedDimension]) -> Tensor:
        """Return a view with the axes of the locations; other axes have size 1 or are alike."""
        interpolate = self.transform.interpolate
        lengths = interpolate.weight_part("locs").shape[:-1]
        dims = interpolate.shape.other_shapes["locs_shape"][:-1]
        axes = [names.index(dim) for dim in dims if dim in names]
        weight = weight.permute([a for a in range(len(names)) if a not in axes] + axes)
        weight = weight[(0,) * (len(names) - len(axes))]
        return weight[tuple(slice(None) if dim in names else None for dim in dims)].expand(lengths)

    def axes(self, names: Dims, dims: Iterable[NamedDimension]) -> list[int]:
        """Return the axes of ``dims`` among ``names``."""
        return [axis_of(names.index(dim), names) for dim in dims]


class _Mixing(NamedTuple):
    """How a Dense mixes images or points."""

    coefficient: NamedDimension
    """The dimension that it sums over."""
    frames: set[NamedDimension]
    """The dimensions that only the output has."""
    weighted: set[NamedDimension]
    """The other dimensions of the weight."""

    @classmethod
    def of(cls, linop: NamedLinop) -> _Mixing | None:
        """Return it, or None if the operator is another one or sums over several dimensions."""
        summed = {*linop.ishape} - {*linop.oshape}
        if not acts_as(linop, Dense) or len(summed) != 1:
            return None
        weighted = {*linop.shape.other_shapes["weightshape"]} - summed
        (coefficient,) = summed
        return cls(coefficient, {*linop.oshape} - {*linop.ishape}, weighted)


def diagonal_of(inner: NamedLinop) -> Diagonal | None:
    """Return ``inner`` if it is a Diagonal, or the Diagonal of which it is the normal."""
    linop = inner.linop if acts_as(inner, Normal) else inner
    return linop if acts_as(linop, Diagonal) else None
