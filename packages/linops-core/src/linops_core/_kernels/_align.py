"""Axes put in the order of named dimensions, without a copy."""

from __future__ import annotations

from torch import Tensor

from nameddim import ELLIPSES, NamedDimension


def aligned(
    weight: Tensor, dims: tuple[NamedDimension, ...], target: tuple[NamedDimension, ...], ndim: int
) -> Tensor:
    """Return a view of ``weight`` whose axes broadcast against a tensor of shape ``target``.

    Parameters
    ----------
    dims : tuple of dimensions
        The axes of the weight; each is in ``target``.
    target : tuple of dimensions
        May hold one ``...``, along which the weight is the same.
    ndim : int
        Number of axes of the tensor, which tells how many the ``...`` stands for.
    """
    if dims == target or (target[:1] == (ELLIPSES,) and dims == target[1:]):
        return weight
    order = [dim for dim in target if dim in dims]
    if order != list(dims):
        weight = weight.permute([dims.index(dim) for dim in order])
    hidden = ndim - (len(target) - 1)
    index: list[slice | None] = []
    for dim in target:
        if dim == ELLIPSES:
            index += [None] * hidden
        else:
            index.append(slice(None) if dim in dims else None)
    return weight[tuple(index)]
