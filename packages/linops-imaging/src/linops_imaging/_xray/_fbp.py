"""Filtered back projection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from linops_core import Chain, NamedLinop, Scalar
from linops_core.siblings import acts_as, check_flags, is_dense, is_unitary, not_a_tensor

from .._checks import check_finite
from .._some_at_a_time import some_at_a_time
from ._beams import FanRays, ParallelRays
from ._fan_beam import FanBeam
from ._joseph import MOST_IMAGES
from ._parallel_beam import ParallelBeam
from ._rays import coordinates, images_and_beam_are_fixed, value_of
from ._scan_weights import scan_weights

_AT_ONCE = 2**17
"""Numbers of a sinogram or an image that are computed at a time."""
# Functions of the frequency, which is 1 at the Nyquist frequency of the detectors.
_FILTERS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "ramp": torch.ones_like,
    "shepp-logan": lambda f: torch.sinc(f / 2),
    "cosine": lambda f: (math.pi / 2 * f).cos(),
    "hamming": lambda f: 0.54 + 0.46 * (math.pi * f).cos(),
    "hann": lambda f: 0.5 + 0.5 * (math.pi * f).cos(),
}


def fbp(
    sinogram: Tensor,
    A: NamedLinop,
    window: str = "ramp",
    *,
    allow_gaps: bool = False,
) -> Tensor:
    r"""Return the image by filtered back projection.

    Each projection is convolved with a windowed ramp filter that is band-limited to the Nyquist
    frequency of the detectors. Then it is back projected: with ``A.H`` for parallel rays, and for a
    fan with the weight :math:`R^2 / l^2` of a pixel at the distance l from the source along the
    middle ray. (For curved detectors l is the distance from the source, and the filter is that of
    equal angles.) The angles need not be equally spaced: the weight of an angle is half the
    distance between its two neighbours, modulo pi, or modulo 2 pi for a fan.

    A fan may cover less than a circle: a short scan covers 180 degrees and the part of the fan
    that crosses the image. Then rays that are seen twice share a weight, as with Parker's weights,
    which goes to zero at both ends of the scan. With a ``detector_offset``, one side of the
    detectors may see the image in part; then the angles must cover the whole circle, for parallel
    rays, too. Rays that only one side sees have the full weight.

    Parameters
    ----------
    sinogram : Tensor
        (..., A, D), real or complex. Half precision and integers are computed in float32.
    A : ParallelBeam or FanBeam
        Or one of them composed with numbers and unitary operators, such as ``FourierShift``. Its
        detectors must see the whole object (with the whole circle, one side of them must) and must
        not be farther apart than a pixel, or the image has artefacts; this is not checked.
    window : {"ramp", "shepp-logan", "cosine", "hamming", "hann"}
        Multiplies the ramp, to reduce noise; "ramp" is the bare ramp.
    allow_gaps : bool
        Whether angles may be missing; the image then has streaks and blurred edges. The angles at
        both ends of a gap get larger weights, but a fan with one gap has the weights of a short
        scan.

    Returns
    -------
    Tensor
        (..., Nx, Ny).

    Raises
    ------
    TypeError
        If the sinogram is not a tensor, or A is another operator.
    ValueError
        If there is no such window, if an angle is not finite, if the sinogram does not have the
        size of A's output, if all detectors are on one side of the axis of rotation, or if a gap
        between angles is too large: larger than 5 degrees and than 3 times the distance of equally
        spaced angles, or larger than half of the circle to cover.

    References
    ----------
    A. C. Kak and M. Slaney, "Principles of computerized tomographic imaging", IEEE Press (1988),
    sections 3.3 and 3.4.
    D. L. Parker, "Optimal short scan convolution reconstruction for fan beam CT", Medical Physics 9
    (1982).
    F. Noo, M. Defrise, R. Clackdoyle and H. Kudo, "Image reconstruction from fan-beam projections
    on less than a short scan", Physics in Medicine and Biology 47 (2002).
    G. Wang, "X-ray micro-CT with a displaced detector array", Medical Physics 29 (2002).

    Examples
    --------
    >>> angles = torch.arange(90) * math.pi / 90
    >>> A = ParallelBeam(angles, 96, (64, 64))
    >>> disc = torch.zeros(64, 64)
    >>> disc[24:40, 24:40] = 1
    >>> abs(fbp(A(disc), A)[32, 32] - 1) < 0.05
    tensor(True)
    """
    check_flags("fbp", allow_gaps=allow_gaps)
    if not is_dense(sinogram):
        raise not_a_tensor("fbp", "the sinogram", sinogram)
    if acts_as(A, Chain):
        kinds = ParallelBeam, FanBeam
        return of_chain(
            "fbp", sinogram, A, kinds, lambda y, inner: fbp(y, inner, window, allow_gaps=allow_gaps)
        )
    if not (acts_as(A, ParallelBeam) or acts_as(A, FanBeam)) or A.is_adjoint:
        raise TypeError(
            f"fbp: A must be a ParallelBeam or a FanBeam, got {A!r}; a subclass must not override "
            "their functions"
        )
    check_filter("fbp", window)
    angles = A.weight_part("angles")
    if sinogram.shape[-2:] != (len(angles), A.n_detectors):
        raise ValueError(
            f"fbp: the sinogram must have {len(angles)} angles and {A.n_detectors} detectors, got "
            f"shape {tuple(sinogram.shape)}"
        )
    # There are no Fourier transforms of half precision and of integers.
    sinogram = sinogram.to(torch.promote_types(sinogram.dtype, torch.float32))
    if not sinogram.numel():
        empty: Tensor = A.H(sinogram)
        return empty
    check_finite("fbp", "the angles of A", angles)
    beam = A.beam()
    weights, n_missing = scan_weights(beam, A.grid_size, allow_gaps)
    weights = weights.to(sinogram.real.dtype)
    if isinstance(beam, FanRays):
        weights = weights * beam.fan().cos().to(weights.dtype)
    else:
        weights = weights * value_of(beam.spacing)
    sizes = A.grid_size
    beam, filtered = with_ramp_filter(beam, n_missing, window, sinogram.real)

    def weighted(lines: Tensor) -> Tensor:
        """Return lines (B, A, D) with weights, convolved with the ramp filter."""
        return filtered(lines * weights)

    lines = sinogram.reshape(-1, *sinogram.shape[-2:])
    may_cut = images_and_beam_are_fixed(lines, beam)
    # Back projection shares weights between images, but needs four times the memory of its input.
    n_images = min(max(MOST_IMAGES // 4, len(lines) // 20), MOST_IMAGES) >> sinogram.is_complex()
    n_lines, n_rows = _AT_ONCE // lines[0].numel(), _AT_ONCE // (n_images * sizes[1])
    if not may_cut:
        n_images, n_lines, n_rows = len(lines), len(lines), sizes[0]

    def image_of(lines: Tensor) -> Tensor:
        lines = some_at_a_time(weighted, lines, n_lines)
        if isinstance(beam, FanRays):
            return _of_fan(lines, beam, sizes, n_rows)
        return A.onto_images(lines, beam)

    images = some_at_a_time(image_of, lines, n_images)
    return images.view(*sinogram.shape[:-2], *sizes)


def check_filter(owner: str, name: str) -> None:
    """Raise an error unless there is such a filter."""
    if name not in [*_FILTERS]:
        raise ValueError(f"{owner}: window must be one of {[*_FILTERS]}, got {name!r}")


def of_chain(
    owner: str,
    sinogram: Tensor,
    A: Chain,
    kinds: Sequence[type],
    invert: Callable[[Tensor, NamedLinop], Tensor],
) -> Tensor:
    """Return the image for a beam between operators that have an inverse."""
    other = TypeError(
        f"{owner}: A must be one X-ray transform composed with numbers and unitary operators, got "
        f"{A!r}"
    )
    at = [n for n, factor in enumerate(A.linops) if any(acts_as(factor, kind) for kind in kinds)]
    if len(at) != 1:
        raise other

    def undone(factor: NamedLinop, y: Tensor) -> Tensor:
        if acts_as(factor, Scalar):
            scaled: Tensor = y / factor.weight
            return scaled
        if not is_unitary(factor):
            raise other
        return factor.H(y)

    for factor in reversed(A.linops[at[0] + 1 :]):
        sinogram = undone(factor, sinogram)
    image = invert(sinogram, A.linops[at[0]])
    for factor in reversed(A.linops[: at[0]]):
        image = undone(factor, image)
    return image


def _of_fan(lines: Tensor, beam: FanRays, sizes: Sequence[int], n_rows: int) -> Tensor:
    """Return the images from filtered projections (B, A, D), some rows of pixels at a time."""
    lines = pad(lines, (1, 2))
    x0, x1 = coordinates(beam, sizes)
    parts = []
    for some_x0 in x0.split(max(1, n_rows)):
        rows = lines.new_zeros(len(lines), len(some_x0), len(x1))
        distances = beam.distances(some_x0, x1, lines.real.dtype)
        for line, (s, away) in zip(lines.unbind(1), distances, strict=True):
            at = (beam.detector_at(s, away) + 1).clamp(0, beam.n_detectors + 1)
            index = at.long().flatten()
            left, right = (line[:, k:].index_select(1, index).view_as(rows) for k in (0, 1))
            rows = rows + (left + at.frac() * (right - left)) * beam.nearness(s, away)
        parts.append(rows)
    return torch.cat(parts, 1)


def with_ramp_filter(
    beam: ParallelRays | FanRays, n_missing: int, filter_name: str, like: Tensor
) -> tuple[ParallelRays | FanRays, Callable[[Tensor], Tensor]]:
    """Return the beam with detectors that are missing, and the filter of lines without these.

    The filter is in the dtype of ``like``, which is real.
    """
    zeros = max(-n_missing, 0), max(n_missing, 0)
    offset = beam.offset + beam.spacing * (n_missing / 2)
    beam = beam._replace(n_detectors=beam.n_detectors + abs(n_missing), offset=offset)
    ramp = _response(beam, filter_name).to(like)

    def filtered(lines: Tensor) -> Tensor:
        lines = pad(lines, zeros) if n_missing else lines
        n, n_samples = len(ramp), lines.shape[-1]
        if lines.is_complex():
            convolved: Tensor = torch.fft.ifft(torch.fft.fft(lines, n).mul_(ramp))
        else:
            half = torch.fft.rfft(lines, n).mul_(ramp[: n // 2 + 1])
            convolved = torch.fft.irfft(half, n)
        return convolved[..., :n_samples]

    return beam, filtered


def _response(beam: ParallelRays | FanRays, filter_name: str) -> Tensor:
    """Return the frequency response of the ramp filter for the lines of a beam."""
    n, spacing, angular_spacing = beam.n_detectors, value_of(beam.spacing), 0.0
    if isinstance(beam, FanRays):
        # The detectors are scaled to the origin.
        angular_spacing = spacing / (beam.source + beam.detector) if beam.is_curved else 0.0
        spacing *= beam.source / (beam.source + beam.detector)
    padded = 2 ** math.ceil(math.log2(max(2 * n, 2)))  # so that no projection wraps around
    at = torch.arange(padded // 2 + 1, dtype=torch.float64, device="cpu")
    odd = (at % 2 == 1).double()
    ramp = -odd / (math.pi * at.clamp(min=1) * spacing).square()
    ramp /= torch.sinc(at.clamp(max=n) * (angular_spacing / math.pi)).square()
    ramp[0] = 1 / (4 * spacing**2)
    whole = torch.cat([ramp, ramp[1:-1].flip(0)])
    response: Tensor = torch.fft.fft(whole).real * spacing
    frequency = torch.fft.fftfreq(padded, 0.5, dtype=torch.float64, device="cpu").abs()
    return response * _FILTERS[filter_name](frequency)
