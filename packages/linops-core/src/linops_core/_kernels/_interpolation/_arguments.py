"""What the arguments of an interpolation must be."""

from __future__ import annotations

import math

from torch import Tensor

from ..._numbers import is_finite, is_integer, is_size
from .._dtype import is_dense, not_a_tensor


def check_interpolation(
    locs: Tensor,
    sizes: tuple[int, ...],
    width: float,
    norm: int,
    pad_mode: str,
    scale: tuple[float, ...],
    budget: int,
) -> None:
    """Raise an error unless these can be arguments of `Interpolate`."""
    if not is_dense(locs) or not locs.is_floating_point():
        raise not_a_tensor("Interpolate", "the locations", locs, "a tensor of real numbers")
    ndim = len(sizes)
    rules = {
        f"grid_size must be 1, 2 or 3 positive integers, got {sizes}": (
            ndim in (1, 2, 3) and all(map(is_size, sizes))
        ),
        f"the last dimension of the locations must have size {ndim} for a grid of {sizes}, got "
        f"shape {tuple(locs.shape)}": locs.shape[-1:] == (ndim,),
        f"width must be positive and finite, got {width!r}": (is_finite(width) and width > 0),
        f"norm must be 1 or 2, got {norm!r}": norm in (1, 2),
        f"pad_mode must be one of ['circular', 'zeros'], got {pad_mode!r}": (
            pad_mode in ("circular", "zeros")
        ),
        f"scale must be {ndim} positive finite numbers, got {scale}": (
            len(scale) == ndim and all(0 < factor < math.inf for factor in scale)
        ),
        f"table_budget must be a number of bytes, 0 for no table, got {budget!r}": (
            is_integer(budget, 0)
        ),
    }
    for rule, holds in rules.items():
        if not holds:
            raise ValueError(f"Interpolate: {rule}")
