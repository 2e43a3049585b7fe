"""Which points of a Cartesian k-space grid are measured.

Masks are bool tensors of the shape of the grid. The centre of k-space is at index N // 2 along each
axis, as in a centred :class:`linops_core.FFT`. Pass a mask to ``Sampling.from_mask``. The same
``seed`` gives the same mask on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real

from ._checks import one_for_each, sizes_of_grid

__all__ = ["calibration_region", "poisson_disc", "variable_density"]

Arguments = ParamSpec("Arguments")

_NDIMS = (1, 2, 3)
_AT_ONCE = 2**12
"""Points that are tried at a time."""


def calibration_region(grid_size: Sequence[int], region_size: int | Sequence[int]) -> Tensor:
    """Return the mask of a fully sampled block around the centre of k-space.

    Parameters
    ----------
    grid_size : sequence of int
        One to three positive numbers.
    region_size : int or sequence of int
        One number for all axes or one for each, not negative and not larger than the grid.

    Returns
    -------
    Tensor
        bool, of shape ``grid_size``. Along an axis of N points, a block of n points begins at
        index N // 2 - n // 2.

    Raises
    ------
    TypeError, ValueError
        If a size has a wrong type or is out of range.

    Examples
    --------
    >>> calibration_region([6], 2).int()
    tensor([0, 0, 1, 1, 0, 0], dtype=torch.int32)
    """
    sizes = sizes_of_grid("calibration_region", grid_size, *_NDIMS)
    region = _region("calibration_region", region_size, sizes)
    mask = torch.zeros(sizes, dtype=torch.bool)
    starts = [size // 2 - length // 2 for size, length in zip(sizes, region, strict=True)]
    block = [slice(start, start + length) for start, length in zip(starts, region, strict=True)]
    mask[tuple(block)] = True
    return mask


def _drawn_on_the_cpu(make: Callable[Arguments, Tensor]) -> Callable[Arguments, Tensor]:
    """Draw a mask where the random numbers are, for any default device, and return it there."""

    @wraps(make)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Tensor:
        with torch.device("cpu"):
            mask = make(*args, **kwargs)
        return mask.to(torch.get_default_device())

    return drawn


@_drawn_on_the_cpu
def variable_density(
    grid_size: Sequence[int],
    acceleration: float,
    power: float = 2.0,
    calibration: int | Sequence[int] = 0,
    seed: int = 0,
) -> Tensor:
    r"""Return a random mask whose density falls off as :math:`(1 - r)^p`.

    r is the distance to the centre, 1 at the farthest corner. Points are drawn without replacement,
    with probabilities in proportion to the density. The calibration region is always sampled.

    Parameters
    ----------
    grid_size : sequence of int
        One to three positive numbers.
    acceleration : float
        Grid points per sample, at least 1. The mask has round(number of points / acceleration)
        samples.
    power : float
        p, not negative; 0 samples uniformly.
    calibration : int or sequence of int
        Size of the fully sampled centre, as in :func:`calibration_region`.
    seed : int
        Seed of the random numbers, from -2^63 to 2^64 - 1.

    Returns
    -------
    Tensor
        bool, of shape ``grid_size``.

    Raises
    ------
    TypeError, ValueError
        If a number has a wrong type or is out of range, or the calibration region alone has more
        samples than asked for.

    References
    ----------
    M. Lustig, D. Donoho and J. M. Pauly, "Sparse MRI: the application of compressed sensing for
    rapid MR imaging", Magnetic Resonance in Medicine 58 (2007).

    Examples
    --------
    >>> variable_density([64, 64], acceleration=4).count_nonzero()
    tensor(1024)
    """
    mask, wanted = _calibration_and_count("variable_density", grid_size, acceleration, calibration)
    power = check_real("variable_density", "power", power, 0)
    distance = _distance(mask.shape)
    density = distance.div_(distance.max().clamp(min=1)).neg_().add_(1).pow_(power)
    # Efraimidis and Spirakis: the largest u^(1/w) of uniform u are draws in proportion to w.
    chance = torch.rand(
        mask.shape, generator=_generator("variable_density", seed), dtype=torch.float64
    )
    order = chance.log_().div_(density.clamp_(min=1e-300))
    order[mask] = math.inf
    mask.view(-1)[order.view(-1).topk(wanted).indices] = True
    return mask


@_drawn_on_the_cpu
def poisson_disc(
    grid_size: Sequence[int],
    acceleration: float,
    power: float = 1.0,
    calibration: int | Sequence[int] = 0,
    seed: int = 0,
) -> Tensor:
    r"""Return a random mask with a smallest distance between samples that grows outwards.

    Any two samples p, q outside of the calibration region are farther apart than the smaller of
    :math:`s (1 + c r_p)^a` and :math:`s (1 + c r_q)^a`. Here r is the distance to the centre as in
    :func:`variable_density`, c = 4 and a = ``power``. Points are tried in random order. The scale s
    is, to 1 percent, the largest one at which all samples find a place.

    Parameters
    ----------
    grid_size : sequence of int
        Two or three positive numbers.
    acceleration : float
        Grid points per sample, at least 1. The mask has round(number of points / acceleration)
        samples.
    power : float
        a, not negative; 0 samples uniformly.
    calibration : int or sequence of int
        Size of the fully sampled centre, as in :func:`calibration_region`.
    seed : int
        Seed of the random numbers, from -2^63 to 2^64 - 1.

    Returns
    -------
    Tensor
        bool, of shape ``grid_size``.

    Raises
    ------
    TypeError, ValueError
        If a number has a wrong type or is out of range, or the calibration region alone has more
        samples than asked for.

    References
    ----------
    R. L. Cook, "Stochastic sampling in computer graphics", ACM Transactions on Graphics 5 (1986).

    S. Vasanawala et al., "Practical parallel imaging compressed sensing MRI: summary of two years
    of experience in accelerating body MRI of pediatric patients", IEEE International Symposium on
    Biomedical Imaging (2011).

    Examples
    --------
    >>> mask = poisson_disc([64, 64], acceleration=6, calibration=12)
    >>> mask.count_nonzero()
    tensor(683)
    """
    mask_so_far, wanted = _calibration_and_count(
        "poisson_disc", grid_size, acceleration, calibration, (2, 3)
    )
    power = check_real("poisson_disc", "power", power, 0)
    distance = _distance(mask_so_far.shape)
    growth = distance.div_(distance.max().clamp(min=1)).mul_(4).add_(1)
    growth = growth.pow_(power).clamp_(max=1e100)  # finite, also where the power is large
    order = torch.randperm(mask_so_far.numel(), generator=_generator("poisson_disc", seed))
    low, high = 0.0, float(max(mask_so_far.shape))
    mask = _with_points_added(mask_so_far, growth, low, order, wanted)
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        tried = _with_points_added(mask_so_far, growth, middle, order, wanted)
        if int(tried.sum()) == wanted:
            mask, low = tried, middle
        else:
            high = middle
    return mask


def _calibration_and_count(
    owner: str,
    grid_size: Sequence[int],
    acceleration: float,
    calibration: int | Sequence[int],
    ndims: Sequence[int] = _NDIMS,
) -> tuple[Tensor, int]:
    """Return the mask of the calibration region, and the number of samples to have in all."""
    sizes = sizes_of_grid(owner, grid_size, *ndims)
    acceleration = check_real(owner, "acceleration", acceleration, 1)
    mask = calibration_region(sizes, _region(owner, calibration, sizes))
    wanted = round(mask.numel() / acceleration)
    if (mask_so_far := int(mask.sum())) > wanted:
        raise ValueError(
            f"{owner}: the calibration region must have at most the {wanted} samples of "
            f"acceleration {acceleration:g}, got {mask_so_far}"
        )
    return mask, wanted


def _region(owner: str, region_size: int | Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    region = (*one_for_each(region_size, len(sizes)),)
    if len(region) != len(sizes):
        raise ValueError(
            f"{owner}: the calibration region must have {len(sizes)} sizes, got {region}"
        )
    name = "the size of the calibration region"
    region = tuple([check_integer(owner, name, length, 0) for length in region])
    if any(length > size for length, size in zip(region, sizes, strict=True)):
        raise ValueError(
            f"{owner}: the calibration region must fit the grid {tuple(sizes)}, got {region}"
        )
    return region


def _generator(owner: str, seed: int) -> torch.Generator:
    number = check_integer(owner, "seed", seed, -(2**63))  # torch takes negative ones
    if number >= 2**64:
        raise ValueError(f"{owner}: seed must be less than 2^64, got {number}")
    return torch.Generator("cpu").manual_seed(number)


def _distance(sizes: Sequence[int]) -> Tensor:
    """Return the distance of each grid point to the centre, where each axis has length 2."""
    total = torch.zeros(*sizes, dtype=torch.float64)
    for axis, size in enumerate(sizes):
        along = (torch.arange(size, dtype=torch.float64) - size // 2) / max(size / 2, 1)
        total += along.square().view(-1, *(1,) * (len(sizes) - 1 - axis))
    return total.sqrt()


def _with_points_added(
    mask_so_far: Tensor, growth: Tensor, scale: float, order: Tensor, most: int
) -> Tensor:
    """Return the mask with points added in ``order``, unless a sample is too close to the point.

    A sample blocks all points within its own radius, ``scale`` times its growth. The result has at
    most ``most`` samples.
    """
    mask, free = mask_so_far.numpy().copy(), ~mask_so_far.numpy()
    sizes, flat_free, growths = mask.shape, free.reshape(-1), growth.view(-1)
    squares = [
        torch.arange(-size, size + 1, dtype=torch.float64)
        .square()
        .view(-1, *(1,) * (mask.ndim - 1 - axis))
        .numpy()
        for axis, size in enumerate(sizes)
    ]
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    n_missing = most - int(mask.sum())
    # Lists of all points would need 70 bytes for each; most points are not free in the end.
    for part in order.split(_AT_ONCE):
        own_order = part[torch.from_numpy(flat_free)[part]]
        for flat, relative in zip(own_order.tolist(), growths[own_order].tolist(), strict=True):
            if not n_missing:
                return torch.from_numpy(mask)
            if not flat_free[flat]:
                continue
            n_missing -= 1
            distance = scale * relative
            reach = math.floor(distance)
            at = [flat // stride % size for stride, size in zip(strides, sizes, strict=True)]
            mask[tuple(at)] = True
            starts = [max(0, point - reach) for point in at]
            stops = [min(size, point + reach + 1) for point, size in zip(at, sizes, strict=True)]
            block = tuple(map(slice, starts, stops))
            squared = sum(
                square[start - point + size : stop - point + size]
                for square, start, stop, point, size in zip(
                    squares, starts, stops, at, sizes, strict=True
                )
            )
            free[block] &= squared > distance * distance
    return torch.from_numpy(mask)
