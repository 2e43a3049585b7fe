"""The names of the dimensions of a NUFFT, of an image that is last or at any place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from linops_core import GridNames
from linops_core.siblings import checked_dims, unused_names
from nameddim import NamedDimension, as_dims, get_nd_shape, is_wildcard

Given: TypeAlias = Sequence[NamedDimension | str] | None


def names_of_transform(
    locs_shape: Sequence[int],
    last: tuple[Given, Given, Given],
    placed: tuple[Given, Given, Given],
    input_kshape: Given,
) -> tuple[tuple[NamedDimension, ...], GridNames]:
    """Return the dimensions of the points, and those from the image to the grid inside.

    Parameters
    ----------
    locs_shape : sequence of int
        The shape of the locations.
    last : (output_shape, input_shape, batch_shape)
        The names for an image that is last.
    placed : (dims, shape, to)
        The names for an image at any place.
    input_kshape : sequence of dimensions, optional
        The dimensions of the grid inside.
    """
    (output_shape, input_shape, batch_shape), (dims, shape, to) = last, placed
    is_last, (*lengths, ndim) = dims is None, locs_shape
    why = f"locations of shape {tuple(locs_shape)}"
    names = GridNames.of(
        "NUFFT",
        (dims, shape, to if is_last else None),
        batch_shape,
        ("input_shape", input_shape, get_nd_shape(ndim)),
        ("output_shape", None if is_last else output_shape, None),
        why,
    )
    of_points = ("output_shape", output_shape) if is_last else ("to", to or ())
    default = [f"K{number or ''}" for number in range(len(lengths))]
    points = checked_dims("NUFFT", *of_points, default, why)
    usual = get_nd_shape(ndim, kspace=True)
    if names.is_free:  # neighbours may have any of the usual names
        usual = as_dims(["Grid", "Grid1", "Grid2"][:ndim])
    image, batch = names.grid, names.batch
    unused = unused_names(usual, (*batch, *image, *points))
    grid = checked_dims("NUFFT", "input_kshape", input_kshape, unused, why)
    own = (*names.names, *(dim for dim in points if dim not in batch), *grid)
    named = [dim for dim in own if not is_wildcard(dim)]
    if len({*named}) < len(named):
        raise ValueError(
            "NUFFT: points, image and the grid inside must have different names, got "
            f"points {points}, input_shape {image}, input_kshape {grid} and batch_shape {batch}"
        )
    return points, names._replace(result=grid)
