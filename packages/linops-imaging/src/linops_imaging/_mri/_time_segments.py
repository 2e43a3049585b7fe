"""Off-resonance by time segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from linops_core import Dense, NamedLinop, Side, Wrapper
from linops_core.siblings import check_integer, check_real
from nameddim import ELLIPSES, NamedDimension, as_dims

from .._checks import check_finite, check_real_tensor
from .._some_at_a_time import AT_ONCE, some_at_a_time
from ._phase_evolution import PhaseEvolution

# Values of the field map and of R2*, which are told apart; and times at which errors are looked at.
# Bins of the field, and of the decay: the weights fit the ends of bins, and are checked at more.
_FITTED, _CHECKED, _CHECKED_WITH_DECAY, _TIMES = (256, 16), (4096, 1), (512, 16), 101

# The largest sum of the weights of a sample, which multiplies the errors of the transform: singular
# values are left out until it is kept.
_LARGEST_SUM, _CUTOFFS = 30.0, [10.0**power for power in range(-13, -2)]

# So many segments mean that units are wrong, as the error says.
_MOST_SEGMENTS = 200


class TimeSegments(Wrapper):
    r"""A transform F of an image whose phase evolves while it is measured,

    .. math:: y_j = \sum_r F_{jr} \, e^{(2 \pi i f(r) - R(r)) t_j} \, x_r
              \approx \sum_l b_l(t_j) \, \big( F \operatorname{diag}
              (e^{(2 \pi i f - R) \tau_l}) \, x \big)_j ,

    with the time t of each sample, and L times :math:`\tau_l` in equal steps from the first to the
    last sample. The weights b fit all exponentials best, in least squares over the values that f
    and R take.

    - Sign: f is the frequency by which the phase of the *image* grows, as in
      :math:`f = \arg(\bar x_1 x_2) / (2 \pi \Delta t)` from images :math:`x_1, x_2` at two echo
      times, reconstructed with the sign of :class:`NUFFT` and :class:`linops_core.FFT`. Programs
      that multiply by :math:`e^{-2 \pi i f t}`, such as sigpy and the papers below, need -f here.
    - Each sample is a sum over segments, so an operator has L transforms. Cut it along
      ``segment_dim`` to hold few images at a time; L images are in memory otherwise.

    Parameters
    ----------
    transform : NamedLinop
        F, such as a NUFFT, an FFT or a composition. Segments are a batch to it, so give a NUFFT
        ``batch_shape=("C",)`` also for one image: it may then choose a table. If it has
        ``toeplitz=True``, so has the normal operator, which keeps a kernel for each pair of
        segments (L squared real ones). This saves time for many samples and few segments or coils:
        each pair is multiplied in each call.
    field_map : Tensor
        f in Hz, real, of the shape of ``field_dims``. Gradients reach it. A Parameter stays a
        Parameter. The weights are those of the values that it has now. They fit other values only
        where it has values near by.
    times : Tensor
        t in s, real, of the shape of ``time_dims``.
    n_segments : int, optional
        L; by default the smallest number that keeps ``tol``.
    tol : float
        The largest error of an exponential, whose values are 1 at time 0. ``A.error`` is what is
        reached at the values of the maps, with an exact transform. The sum of the weights of a
        sample, which multiplies the error of the transform, is at most 30, unless ``n_segments``
        is given.
    r2_star : Tensor, optional
        R in 1 / s, real, of the shape of the field map; 0 by default.
    field_dims, time_dims : sequence of dimensions, optional
        Of the field map, and of the times; by default the dimensions that only the input or only
        the output of the transform has, if there are as many, or else the last ones of the input
        and of the output. Give them if others are known to have these sizes.
    segment_dim : dimension
        Name of the dimension of the segments, which is only inside.

    Raises
    ------
    TypeError
        If the transform is not an operator, or maps and times are not real tensors.
    ValueError
        If maps or times are not finite or do not have the shape of their dimensions, these are not
        dimensions of the transform, or no number of segments keeps ``tol``.

    References
    ----------
    B. P. Sutton, D. C. Noll and J. A. Fessler, "Fast, iterative image reconstruction for MRI in the
    presence of field inhomogeneities", IEEE Transactions on Medical Imaging 22 (2003).

    J. A. Fessler, S. Lee, V. T. Olafsson, H. R. Shi and D. C. Noll, "Toeplitz-based iterative image
    reconstruction for MRI with correction for magnetic field inhomogeneity", IEEE Transactions on
    Signal Processing 53 (2005).

    Examples
    --------
    >>> from linops_imaging import NUFFT
    >>> F = NUFFT(torch.zeros(3, 1), (4,), ("K",))
    >>> A = TimeSegments(F, torch.full((4,), 50.0), torch.tensor([0.0, 0.005, 0.01]))
    >>> torch.view_as_real(A(torch.ones(4)) / 2).round(decimals=2) + 0.0
    tensor([[ 1.,  0.],
            [ 0.,  1.],
            [-1.,  0.]])
    """

    def __init__(
        self,
        transform: NamedLinop,
        field_map: Tensor,
        times: Tensor,
        n_segments: int | None = None,
        *,
        tol: float = 1e-3,
        r2_star: Tensor | None = None,
        field_dims: Sequence[NamedDimension | str] | None = None,
        time_dims: Sequence[NamedDimension | str] | None = None,
        segment_dim: NamedDimension | str = "Segment",
    ) -> None:
        if not isinstance(transform, NamedLinop):
            raise TypeError(f"TimeSegments: transform must be a NamedLinop, got {type(transform)}")
        _check_map("field_map", field_map)
        _check_map("times", times)
        of_field = _dims("field_dims", field_dims, field_map, transform, "input")
        of_times = _dims("time_dims", time_dims, times, transform, "output")
        if r2_star is not None:
            _check_map("r2_star", r2_star)
            check_real_tensor(
                "TimeSegments", "r2_star", r2_star, field_map.shape, " of the field map"
            )
        check_real("TimeSegments", "tol", tol, above=0)
        if n_segments is not None:
            check_integer("TimeSegments", "n_segments", n_segments, 1)
        (segment,) = as_dims((segment_dim,))
        if segment in transform.dims:
            raise ValueError(
                f"TimeSegments: segment_dim must not be a dimension of the transform, got {segment}"
            )
        maps = [each.detach() for each in (field_map, r2_star) if each is not None]
        segments = _Segments.chosen(maps, times.detach(), n_segments, tol)
        real = torch.promote_types(field_map.dtype, torch.float32)
        weights = segments.weights(times.detach().double().cpu())
        weights = weights.to(times.device, real.to_complex())
        at = segments.times.to(field_map.device)
        inputs, outputs = transform.ishape, transform.oshape
        evolution = PhaseEvolution(field_map, r2_star, at, inputs, of_field, segment)
        add = Dense(weights, (*of_times, segment), (segment, *outputs), outputs)
        super().__init__(add @ (transform @ evolution))
        self.n_segments, self.error = len(segments.times), segments.error

    @staticmethod
    def fn(linop: TimeSegments, x: Tensor, /) -> Tensor:
        """Return the samples; for the adjoint, the image."""
        return linop.linop(x)

    def normal(self, inner: NamedLinop | None = None) -> NamedLinop:
        """Return A^H A, or A^H inner A, in which the transform may have a closed form."""
        return self.linop.normal(inner)

    def extra_repr(self) -> str:
        """Return the text of ``repr``: the number of segments, and the error."""
        return f"{self.n_segments} segments, error of exponentials up to {self.error:.1e}"


class _Segments(NamedTuple):
    """The times of the segments, and what their weights fit."""

    rates: Tensor
    """Complex, (B,)."""
    times: Tensor
    """(L,)."""
    inverse: Tensor
    """From exponentials of the rates to weights, (B, L)."""
    error: float

    @classmethod
    def chosen(cls, maps: Sequence[Tensor], times: Tensor, n: int | None, tol: float) -> _Segments:
        """Return ``n`` segments, or as few as keep ``tol`` with weights that are not large."""
        rates = _rates(maps, _FITTED)
        checked = _rates(maps, _CHECKED if len(maps) == 1 else _CHECKED_WITH_DECAY)
        ends = [times.min(), times.max()] if times.numel() else [torch.zeros(())] * 2
        first, last = (float(end) for end in ends)
        some = torch.linspace(first, last, _TIMES, dtype=torch.float64, device="cpu")
        smallest = math.inf
        for count in range(1, _MOST_SEGMENTS + 1) if n is None else [n]:
            at = torch.linspace(first, last, count, dtype=torch.float64, device="cpu")
            if count == 1:
                at.fill_((first + last) / 2)
            segments, is_small = cls._fitted(rates, at, some)
            error = segments._error_at(some, rates)
            if n is not None or (is_small and error <= tol):
                error = max(error, segments._error_at(some, checked))
            if n is not None or (is_small and error <= tol):
                return segments._replace(error=error)
            smallest = min(smallest, error)
        raise ValueError(
            f"TimeSegments: tol must be one that {_MOST_SEGMENTS} segments keep, {smallest:.1e}, "
            f"got {tol}; check that the field map is in Hz and times are in seconds"
        )

    @classmethod
    def _fitted(cls, rates: Tensor, at: Tensor, some: Tensor) -> tuple[_Segments, bool]:
        """Return segments at some times, and whether their weights are small enough."""
        left, sizes, right = torch.linalg.svd(_exponentials(at, rates).mT, full_matrices=False)
        wanted = _exponentials(some, rates) @ left.conj()
        for cutoff in (*_CUTOFFS, _CUTOFFS[0]):
            scales = torch.where(sizes > cutoff * sizes[0], 1 / sizes, 0).unsqueeze(-1)
            mixed = scales * right.conj()
            is_small = float((wanted @ mixed).abs().sum(-1).max()) <= _LARGEST_SUM
            if is_small:
                break
        return cls(rates, at, left.conj() @ mixed, 0.0), is_small

    def _error_at(self, times: Tensor, rates: Tensor) -> float:
        """Return the largest error of exponentials of some rates."""
        fitted = self.weights(times) @ _exponentials(self.times, rates)
        return float((fitted - _exponentials(times, rates)).abs().max())

    def weights(self, times: Tensor) -> Tensor:
        """Return b for times (...), (..., L)."""

        def fitted(some: Tensor) -> Tensor:
            return _exponentials(some, self.rates) @ self.inverse

        flat = times.reshape(-1)
        weights = some_at_a_time(fitted, flat, max(1, AT_ONCE // len(self.rates)))
        return weights.reshape(*times.shape, len(self.times))


def _exponentials(times: Tensor, rates: Tensor) -> Tensor:
    """Return the exponential of each rate (B,) at times (T,), (T, B)."""
    return torch.exp(times.unsqueeze(-1) * rates)


def _rates(maps: Sequence[Tensor], n_bins: Sequence[int]) -> Tensor:
    """Return the values that 2 pi i f - R takes: the smallest and largest ones of each bin.

    They are on the CPU, in double precision.
    """
    if not maps[0].numel():
        return torch.zeros(1, dtype=torch.complex128, device="cpu")
    values = [each.double().cpu().flatten() for each in maps]
    numbers = torch.zeros_like(values[0], dtype=torch.long)
    for field, n in zip(values, n_bins, strict=False):
        first, width = field.min(), (field.max() - field.min()) / n
        bin_numbers = ((field - first) / width.clamp(min=1e-300)).long().clamp(max=n - 1)
        numbers = numbers * n + bin_numbers
    bins, bin_of = numbers.unique(return_inverse=True)
    ends = [
        [
            values[0].new_zeros(len(bins)).scatter_reduce(0, bin_of, field, end, include_self=False)
            for end in ("amin", "amax")
        ]
        for field in values
    ]
    decays = ends[1] if len(ends) > 1 else [torch.zeros_like(ends[0][0])]
    pairs = torch.cat([torch.stack([f, r], 1) for f in ends[0] for r in decays]).unique(dim=0)
    return torch.complex(-pairs[:, 1], 2 * math.pi * pairs[:, 0])


def _check_map(name: str, values: Tensor) -> None:
    check_real_tensor("TimeSegments", name, values)
    check_finite("TimeSegments", name, values)


def _dims(
    name: str,
    dims: Sequence[NamedDimension | str] | None,
    values: Tensor,
    transform: NamedLinop,
    of_side: Side,
) -> tuple[NamedDimension, ...]:
    """Return the dimensions of a map, which must be different ones of a side of the transform."""
    side, other = transform.ishape, transform.oshape
    if of_side == "output":
        side, other = other, side
    changed = tuple([dim for dim in side if dim not in other])
    usual = changed if len(changed) == values.ndim else side[len(side) - values.ndim :]
    result = usual if dims is None else as_dims(dims)
    is_fine = len({*result}) == values.ndim and {*result} <= {*side} - {ELLIPSES}
    if not is_fine or not values.ndim:
        raise ValueError(
            f"TimeSegments: {name} must be {values.ndim} dimensions of the transform's "
            f"({', '.join(map(str, side))}), at least one, got {result}"
        )
    lengths, sizes = tuple(values.shape), transform.sizes(of_side)
    known = [sizes[side.index(dim)] for dim in result]
    fits = all(size in (None, length) for size, length in zip(known, lengths, strict=True))
    # The last dimensions may be coils of any number, and others be known to have these lengths.
    runs = [sizes[at : at + len(lengths)] for at in range(len(sizes))]
    if not fits or (dims is None and None in known and lengths in runs):
        raise ValueError(
            f"TimeSegments: {name} must be the dimensions with the sizes {lengths} among the "
            f"transform's ({', '.join(map(str, side))}) of sizes {sizes}, got {result}"
        )
    return result
