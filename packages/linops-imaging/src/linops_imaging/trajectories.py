"""Where MRI measures in k-space: radial and spiral trajectories.

Locations are real, of shape (..., D), in units of grid points of k-space. For a grid of N points
they are in [-N/2, N/2], and the centre of k-space is 0. Locations at a distance of 1 sample at the
Nyquist rate. Coordinate d belongs to grid axis d. Angles are in radians.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from linops_core.siblings import check_integer, check_real

from ._checks import check_dtype, check_finite, check_real_tensor, one_for_each, sizes_of_grid
from ._some_at_a_time import AT_ONCE, some_at_a_time
from ._units import warn_of_degrees

__all__ = ["convert", "golden_angles", "radial_2d", "radial_3d", "spiral_2d"]


_PER_PIXEL = {"cycles/pixel": 1.0, "radians/pixel": 1 / (2 * math.pi), "nyquist": 0.5}
_PER_LENGTH = {"cycles/length": 1.0, "radians/length": 1 / (2 * math.pi)}
_UNITS: Mapping[str, str] = {
    "bart": "cycles/fov",
    "finufft": "radians/pixel",
    "mrpro": "cycles/encoded",
    "pynufft": "radians/pixel",
    "pytorch-finufft": "radians/pixel",
    "sigpy": "cycles/fov",
    "torchkbnufft": "radians/pixel",
}


def convert(
    locs: Tensor,
    unit: str,
    grid_size: int | Sequence[int],
    *,
    fov: float | Sequence[float] | None = None,
    encoded_size: int | Sequence[int] | None = None,
) -> Tensor:
    r"""Return locations of another unit in cycles per field of view, from -N / 2 to N / 2.

    Parameters
    ----------
    locs : Tensor
        Real, (..., D). Gradients reach it.
    unit : str
        One of these, or a library that uses it:

        - "cycles/fov": ours. BART ("bart") and sigpy ("sigpy").
        - "cycles/pixel": from -1/2 to 1/2.
        - "radians/pixel": from -pi to pi. "finufft", "pytorch-finufft", "torchkbnufft", "pynufft".
        - "nyquist": from -1 to 1, multiples of the Nyquist frequency.
        - "cycles/length" and "radians/length": with ``fov``, in the same length.
        - "cycles/encoded": cycles over the field of view of ``encoded_size`` points, as in "mrpro".
        - "mri-nufft": that library's rule: cycles per pixel if all are below 0.5001, otherwise
          radians per pixel.
    grid_size : int or sequence of int
        N, one number for all axes or one for each.
    fov : float or sequence of float, optional
        Field of view, for units with a length.
    encoded_size : int or sequence of int, optional
        Size of the encoded grid, for "cycles/encoded": the points of the grid have the same
        distance as those of ``grid_size``.

    Returns
    -------
    Tensor
        Of the shape and dtype of ``locs``.

    Raises
    ------
    TypeError
        If ``locs`` is not a tensor of real numbers.
    ValueError
        If the unit is unknown, there is not one size for each coordinate, or ``fov`` or
        ``encoded_size`` is missing or given for another unit.

    Examples
    --------
    >>> convert(torch.tensor([[-math.pi, 0.0], [math.pi / 2, 1.0]]), "radians/pixel", (8, 8))
    tensor([[-4.0000,  0.0000],
            [ 2.0000,  1.2732]])
    >>> convert(torch.tensor([[0.1]]), "cycles/length", 64, fov=220.0)
    tensor([[22.]])
    """
    check_real_tensor("convert", "locs", locs)
    n_axes = locs.shape[-1] if locs.ndim else 0
    sizes = sizes_of_grid("convert", grid_size, n_axes)
    name = _UNITS.get(unit, unit) if isinstance(unit, str) else ""
    if name == "mri-nufft":
        # Its own test is this one, with a margin for rounding, and the unit must be the same.
        is_cycles = not locs.numel() or bool(locs.detach().abs().max() - 1e-4 < 0.5)
        name = "cycles/pixel" if is_cycles else "radians/pixel"
    if (name in _PER_LENGTH) != (fov is not None):
        raise ValueError(f"convert: fov must be given for a unit with a length only, got {unit!r}")
    if (name == "cycles/encoded") != (encoded_size is not None):
        raise ValueError(
            f"convert: encoded_size must be given for cycles/encoded only, got {unit!r}"
        )
    if name in _PER_PIXEL:
        factors = [_PER_PIXEL[name] * size for size in sizes]
    elif fov is not None:
        lengths = one_for_each(fov, n_axes)
        if len(lengths) != n_axes:
            raise ValueError(f"convert: fov must be {n_axes} numbers, got {fov!r}")
        lengths = [check_real("convert", "fov", length, above=0) for length in lengths]
        factors = [_PER_LENGTH[name] * length for length in lengths]
    elif encoded_size is not None:
        encoded = sizes_of_grid("convert", encoded_size, n_axes, name="encoded_size")
        factors = [size / whole for size, whole in zip(sizes, encoded, strict=True)]
    elif name == "cycles/fov":
        factors = [1.0] * n_axes
    else:
        kinds = sorted({"cycles/encoded", "cycles/fov", "mri-nufft", *_PER_PIXEL, *_PER_LENGTH})
        raise ValueError(f"convert: unit must be one of {[*kinds, *_UNITS]}, got {unit!r}")
    scale = torch.tensor(factors, dtype=torch.float64, device=locs.device)
    return (locs.double() * scale).to(locs.dtype)


def golden_angles(n_angles: int, index: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Return the golden angles :math:`k \pi / (\tau + i - 1)` of the spokes k = 0, 1, 2 and so on.

    :math:`\tau = (1 + \sqrt 5) / 2` is the golden ratio. Any number of spokes in sequence covers
    the half circle nearly evenly. Index i = 1 is the golden angle, 111.25 degrees. Larger
    indices give tiny golden angles, such as 23.63 degrees for i = 7: smaller steps cause smaller
    eddy currents.

    Parameters
    ----------
    n_angles : int
        Not negative.
    index : int
        At least 1.
    dtype : torch.dtype
        Real.

    Returns
    -------
    Tensor
        Shape (n_angles,), in [0, 2 pi).

    Raises
    ------
    TypeError, ValueError
        If a number or the dtype is not allowed.

    References
    ----------
    S. Winkelmann et al., "An optimal radial profile order based on the golden ratio for
    time-resolved MRI", IEEE Transactions on Medical Imaging 26 (2007).

    S. Wundrak et al., "Golden ratio sparse MRI using tiny golden angles", Magnetic Resonance in
    Medicine 75 (2016).

    Examples
    --------
    >>> golden_angles(3).rad2deg()
    tensor([  0.0000, 111.2461, 222.4922])
    """
    check_dtype("golden_angles", dtype, real=True, complex_=False)
    check_integer("golden_angles", "n_angles", n_angles, 0)
    check_integer("golden_angles", "index", index, 1)
    step = math.pi / ((1 + math.sqrt(5)) / 2 + index - 1)
    angles = torch.arange(n_angles, dtype=torch.float64)
    return angles.mul_(step).remainder_(2 * math.pi).to(dtype)


def radial_2d(
    n_spokes: int,
    n_readout: int,
    grid_size: int | Sequence[int],
    angles: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Return spokes through the centre of k-space,

    .. math:: l_{sk} = N \left(\frac{k}{n} - \frac12\right) (\cos \phi_s, \sin \phi_s),

    for n readout points. If n is even, point n // 2 is the centre.

    Parameters
    ----------
    n_spokes, n_readout : int
        At least 1. Use pi / 2 N spokes to sample the edge of k-space at the Nyquist rate.
    grid_size : int or (int, int)
        N, one number for both axes or one for each.
    angles : Tensor, optional
        Real, (n_spokes,), in radians; :func:`golden_angles` by default.
    dtype : torch.dtype
        Real.

    Returns
    -------
    Tensor
        Shape (n_spokes, n_readout, 2).

    Raises
    ------
    TypeError, ValueError
        If a number or the dtype is not allowed, or the angles are not one finite real number for
        each spoke.

    Examples
    --------
    >>> radial_2d(1, 4, 8)
    tensor([[[-4., -0.],
             [-2., -0.],
             [ 0.,  0.],
             [ 2.,  0.]]])
    """
    check_dtype("radial_2d", dtype, real=True, complex_=False)
    check_integer("radial_2d", "n_spokes", n_spokes, 1)
    check_integer("radial_2d", "n_readout", n_readout, 1)
    sizes = sizes_of_grid("radial_2d", grid_size, 2)
    if angles is None:
        angles = golden_angles(n_spokes, dtype=torch.float64)
    check_real_tensor("radial_2d", "angles", angles, (n_spokes,), " of n_spokes")
    check_finite("radial_2d", "angles", angles)
    warn_of_degrees("radial_2d", angles, stacklevel=3)
    angles = angles.to(torch.float64)
    return _spokes(torch.stack([angles.cos(), angles.sin()], -1), n_readout, sizes, dtype)


def radial_3d(
    n_spokes: int,
    n_readout: int,
    grid_size: int | Sequence[int],
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Return spokes through the centre of k-space in 3-D, in the order of golden means.

    Spoke s has the direction with polar angle :math:`\arccos (s g_1 \bmod 1)` and azimuth
    :math:`2 \pi (s g_2 \bmod 1)`, with :math:`g_1 = g_2^2`, where :math:`g_2 = 0.6823` is the real
    root of :math:`g^3 + g = 1`. Any number of spokes in sequence covers the half sphere nearly
    evenly.

    Parameters
    ----------
    n_spokes, n_readout : int
        At least 1. Use pi / 2 N^2 spokes to sample the edge of k-space at the Nyquist rate.
    grid_size : int or (int, int, int)
        One number for all axes or one for each.
    dtype : torch.dtype
        Real.

    Returns
    -------
    Tensor
        Shape (n_spokes, n_readout, 3).

    Raises
    ------
    TypeError, ValueError
        If a number or the dtype is not allowed.

    References
    ----------
    R. W. Chan et al., "Temporal stability of adaptive 3D radial MRI using multidimensional golden
    means", Magnetic Resonance in Medicine 61 (2009).

    Examples
    --------
    >>> radial_3d(2, 2, 4)[:, 0].norm(dim=-1)
    tensor([2., 2.])
    """
    check_dtype("radial_3d", dtype, real=True, complex_=False)
    check_integer("radial_3d", "n_spokes", n_spokes, 1)
    check_integer("radial_3d", "n_readout", n_readout, 1)
    sizes = sizes_of_grid("radial_3d", grid_size, 3)
    spoke = torch.arange(n_spokes, dtype=torch.float64)
    height = (spoke * _GOLDEN_MEAN**2).remainder(1)
    azimuth = 2 * math.pi * (spoke * _GOLDEN_MEAN).remainder(1)
    across = (1 - height**2).sqrt()
    directions = torch.stack([across * azimuth.cos(), across * azimuth.sin(), height], -1)
    return _spokes(directions, n_readout, sizes, dtype)


def spiral_2d(
    n_interleaves: int,
    n_readout: int,
    grid_size: int | Sequence[int],
    n_turns: float | None = None,
    density: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    r"""Return spirals from the centre of k-space outwards,

    .. math:: l_{sk} = \frac N2 t^a (\cos \phi, \sin \phi), \quad
        \phi = 2 \pi (T t + s / S), \quad t = \frac{k}{n - 1},

    with T turns of each of S interleaves. Points are at equal steps of the angle.

    Parameters
    ----------
    n_interleaves, n_readout : int
        S, at least 1, and n, at least 2.
    grid_size : int or (int, int)
        N, one number for both axes or one for each.
    n_turns : float, optional
        T, positive. By default N / (2 S) for the larger N: with ``density=1``, turns are then one
        grid point apart.
    density : float
        a, positive. With 1, turns are equally far apart. Above 1, they are denser at the centre.
    dtype : torch.dtype
        Real.

    Returns
    -------
    Tensor
        Shape (n_interleaves, n_readout, 2).

    Raises
    ------
    TypeError, ValueError
        If a number or the dtype is not allowed.

    References
    ----------
    D. H. Kim, E. Adalsteinsson and D. M. Spielman, "Simple analytic variable density spiral
    design", Magnetic Resonance in Medicine 50 (2003).

    Examples
    --------
    >>> spiral_2d(1, 3, 8, n_turns=1)[0, :, 0]
    tensor([ 0., -2.,  4.])
    """
    check_dtype("spiral_2d", dtype, real=True, complex_=False)
    check_integer("spiral_2d", "n_interleaves", n_interleaves, 1)
    check_integer("spiral_2d", "n_readout", n_readout, 2)
    sizes = sizes_of_grid("spiral_2d", grid_size, 2)
    turns = max(sizes) / (2 * n_interleaves) if n_turns is None else n_turns
    for name, value in (("n_turns", turns), ("density", density)):
        check_real("spiral_2d", name, value, above=0)
    t = torch.linspace(0, 1, n_readout, dtype=torch.float64)
    first = torch.arange(n_interleaves, dtype=torch.float64).unsqueeze(-1) / n_interleaves
    radius = torch.tensor(sizes, dtype=torch.float64) / 2 * t.pow(density).unsqueeze(-1)

    def interleaves(first: Tensor) -> Tensor:
        angle = 2 * math.pi * (turns * t + first)
        return (radius * torch.stack([angle.cos(), angle.sin()], -1)).to(dtype)

    return some_at_a_time(interleaves, first, AT_ONCE // radius.numel())


def _real_root() -> float:
    """Return the root of g^3 + g = 1, by Cardano's formula."""
    root = math.sqrt(31 / 108)
    return math.cbrt(0.5 + root) + math.cbrt(0.5 - root)


_GOLDEN_MEAN = _real_root()


def _spokes(directions: Tensor, n_readout: int, sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return the points of spokes in directions (n_spokes, D), (n_spokes, n_readout, D)."""
    along = torch.arange(n_readout, dtype=torch.float64, device=directions.device) / n_readout - 0.5
    scaled = directions * directions.new_tensor(sizes)

    def spokes(scaled: Tensor) -> Tensor:
        return (along.unsqueeze(-1) * scaled.unsqueeze(-2)).to(dtype)

    return some_at_a_time(spokes, scaled, AT_ONCE // (n_readout * len(sizes)))
