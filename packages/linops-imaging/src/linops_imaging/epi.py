"""Echo planar imaging: the phase between lines that are read forwards and backwards.

Delays of the gradients and eddy currents shift the echoes of lines that are read backwards against
the others. Without correction a ghost of the object appears at half the field of view along the
phase encoding (Nyquist ghost). Along the readout x of an image whose lines are not yet transformed,
the difference is a phase, in good approximation :math:`c + b x` (H. Bruder et al., "Image
reconstruction for echo planar imaging with nonequidistant k-space sampling", Magnetic Resonance in
Medicine 23, 1992).

:func:`estimate_phase` finds c and b from reference lines, and :class:`LinePhase` is their operator.
It belongs between the transforms of the two axes of an image:

>>> import torch
>>> from linops_core import FFT
>>> is_reversed = torch.arange(6) % 2 == 1
>>> G = LinePhase(0.3, -0.02, is_reversed, 8)
>>> A = FFT(dims=("Nx",), to=("Kx",), centered=True) @ G
>>> A = A @ FFT(dims=("Ny",), shape=("...", "Ny", "Nx"), to=("Ky",), centered=True)
>>> A.shape
(..., Ny, Nx) -> (..., Ky, Kx)

``A.H`` of the lines is then the image without a ghost. If samples are taken while the gradient
ramps up and down, a :class:`linops_imaging.NUFFT` takes the place of the first transform, with the
locations of :func:`trapezoid`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from linops_core import Identity, NamedLinop, SliceableLinop
from linops_core.siblings import aligned, check_integer, check_real
from nameddim import ELLIPSES, NamedDimension, NamedShape, as_dims

from ._checks import check_finite, one_for_each

__all__ = ["LinePhase", "estimate_phase", "trapezoid"]

Dims = tuple[NamedDimension | str, ...]


class LinePhase(SliceableLinop):
    r"""The phase of lines that are read backwards, along the readout x,

    .. math:: y_{l x} = e^{i r_l (c + b \, (x - \lfloor N / 2 \rfloor))} \, x_{l x},

    with :math:`r_l = 1` for lines that are read backwards and 0 for the others. It is unitary: the
    adjoint removes the phase. All dimensions are batch dimensions and can be sliced.

    Parameters
    ----------
    constant, slope : float or Tensor
        c in radians and b in radians per pixel of the readout. Real tensors are weights: gradients
        reach them, and a Parameter stays a Parameter.
    is_reversed : Tensor
        Which lines are read backwards, bool, (L,); ``scan.to_grid(scan.is_reversed)`` of a scan.
    n_readout : int
        N, pixels along the readout.
    dims : (lines, readout)
        Their names.
    phase_dims : sequence of dimensions, optional
        Dimensions of the tensors ``constant`` and ``slope``, such as slices; by default none.
    shape : sequence of dimensions, optional
        All dimensions of input and output, in order. By default ``("...", *phase_dims, *dims)``.

    Raises
    ------
    TypeError
        If ``constant`` or ``slope`` is not real, or ``is_reversed`` is not a tensor of bool.
    ValueError
        If tensors do not have the dimensions above, ``constant`` or ``slope`` is not finite,
        ``n_readout`` is not positive, or ``shape`` lacks a dimension or has ``...`` behind another
        one.

    Notes
    -----
    The result is complex, in the precision of the input (at least single precision).

    Examples
    --------
    >>> G = LinePhase(torch.pi, 0.0, torch.tensor([False, True]), 2)
    >>> G(torch.ones(2, 2, dtype=torch.complex128)).real
    tensor([[ 1.,  1.],
            [-1., -1.]], dtype=torch.float64)
    """

    takes_any_batch = True

    def __init__(
        self,
        constant: float | Tensor,
        slope: float | Tensor,
        is_reversed: Tensor,
        n_readout: int,
        dims: Dims = ("Ky", "Nx"),
        *,
        phase_dims: Dims = (),
        shape: Dims | None = None,
    ) -> None:
        if not isinstance(is_reversed, Tensor) or is_reversed.dtype != torch.bool:
            kind = is_reversed.dtype if isinstance(is_reversed, Tensor) else type(is_reversed)
            raise TypeError(f"LinePhase: is_reversed must be a tensor of bool, got {kind}")
        check_integer("LinePhase", "n_readout", n_readout, 1)
        two, phase = as_dims(dims), as_dims(phase_dims)
        whole = as_dims(("...", *phase, *two) if shape is None else shape)
        if len(two) != 2 or len({*two, *phase}) < 2 + len(phase) or not {*two, *phase} <= {*whole}:
            raise ValueError(
                "LinePhase: dims must be the lines and the readout, and shape must have these and "
                f"phase_dims, got dims {two}, phase_dims {phase} and shape {whole}"
            )
        if ELLIPSES in whole[1:]:
            raise ValueError(f"LinePhase: shape must have ... as its first dimension, got {whole}")
        keys = {"lines": two[:1], "readout": two[1:], "phase": phase}
        super().__init__(NamedShape(whole, **keys))
        for name, value in (("constant", constant), ("slope", slope)):
            if not isinstance(value, Tensor):
                value = torch.tensor(
                    check_real("LinePhase", name, value),
                    dtype=torch.float64,
                    device=is_reversed.device,
                )
            if not value.is_floating_point():
                raise TypeError(f"LinePhase: {name} must be real, got {value.dtype}")
            check_finite("LinePhase", name, value)
            self.register_weight(name, value, "phase", is_geometry=True)
        self.register_weight("is_reversed", is_reversed, "lines")
        middle = n_readout // 2
        at = torch.arange(-middle, n_readout - middle, device=is_reversed.device)
        self.register_weight("positions", at, "readout")

    @staticmethod
    def fn(linop: LinePhase, x: Tensor, /) -> Tensor:
        """Return x with the phase."""
        return x * linop._phases(x, 1)

    @staticmethod
    def adj_fn(linop: LinePhase, x: Tensor, /) -> Tensor:
        """Return x without the phase."""
        return x * linop._phases(x, -1)

    def own_normal(self) -> NamedLinop:
        """Return the identity."""
        return Identity.on_input_of(self)

    def _phases(self, x: Tensor, sign: int) -> Tensor:
        # In double precision: there are few numbers, and they may be far from the middle.
        constant, slope = self._aligned("constant", "phase"), self._aligned("slope", "phase")
        line = constant + slope * self._aligned("positions", "readout")
        angle = sign * line * self._aligned("is_reversed", "lines")
        dtype = torch.promote_types(x.dtype, torch.complex64)
        return torch.complex(angle.cos(), angle.sin()).to(dtype)

    def _aligned(self, name: str, key: str) -> Tensor:
        dims, names = self.shape.other_shapes[key], self.ishape
        return aligned(self.weight_part(name).double(), dims, names, len(names))


def estimate_phase(lines: Tensor, is_reversed: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the constant and the slope of :class:`LinePhase` from three reference lines.

    The lines are measured one after the other without phase encoding, the middle one in the other
    direction. The mean of the outer two, s, has the phase of the time of the middle one, so that a
    drift between the lines cancels (Heid). With the middle line m along the readout x, and the sum
    over coils,

    .. math:: d_x = \sum m_x \overline{s_x}, \quad
              b = \arg \sum_x d_{x + 1} \overline{d_x}, \quad
              c = \arg \sum_x d_x e^{-i b (x - \lfloor N / 2 \rfloor)} ,

    the slope by the autocorrelation of Ahn and Cho, with the opposite signs if the outer lines are
    read backwards. The result is exact for a linear phase.

    Parameters
    ----------
    lines : Tensor
        Complex, (..., C, 3, X), in k-space with the centre at index X // 2: ``scan.readouts()`` of
        ``read_ismrmrd(path, lines="phase correction")``. Lines that were read backwards are turned.
    is_reversed : Tensor
        Which of them were read backwards, bool, (3,).

    Returns
    -------
    constant, slope : Tensor
        float64, (...): radians in (-pi, pi], and radians per pixel.

    Raises
    ------
    TypeError
        If ``lines`` is not complex.
    ValueError
        If there are not three lines, the middle one in the other direction; or if there is no
        signal or a number that is not finite.

    Notes
    -----
    Phases that grow by more than 90 degrees from one line to the next, or differences of more than
    X / 2 samples between the echoes, cannot be told from smaller ones.

    References
    ----------
    O. Heid, "Method for the phase correction of nuclear magnetic resonance signals", US patent
    6,043,651 (2000).

    C. B. Ahn and Z. H. Cho, "A new phase correction method in NMR imaging based on autocorrelation
    and histogram analysis", IEEE Transactions on Medical Imaging 6 (1987).

    Examples
    --------
    >>> echo = torch.tensor([1.0, 4.0, 2.0, 1.0], dtype=torch.complex128)
    >>> lines = torch.stack([echo, 1j * echo, echo]).unsqueeze(0)
    >>> constant, slope = estimate_phase(lines, torch.tensor([False, True, False]))
    >>> f"{constant / torch.pi:.3f} pi, {slope.abs():.3f}"
    '0.500 pi, 0.000'
    """
    if not isinstance(lines, Tensor) or not lines.is_complex():
        kind = lines.dtype if isinstance(lines, Tensor) else type(lines)
        raise TypeError(f"estimate_phase: lines must be a complex tensor, got {kind}")
    given = is_reversed.tolist() if isinstance(is_reversed, Tensor) else is_reversed
    directions = one_for_each(given, 1)
    if (
        lines.ndim < 3
        or not lines.numel()
        or lines.shape[-2] != 3
        or directions not in ([False, True, False], [True, False, True])
    ):
        raise ValueError(
            "estimate_phase: lines must be (..., C, 3, X), the middle one in the other direction, "
            f"got the shape {tuple(lines.shape)} and is_reversed {directions}; select three lines, "
            "for example those of one slice"
        )
    n = lines.shape[-1]
    images = torch.fft.ifft(torch.fft.ifftshift(lines.to(torch.complex128), dim=-1))
    first, middle, last = torch.fft.fftshift(images, dim=-1).unbind(-2)
    differences = (middle * (first + last).conj()).sum(-2)
    if directions[0]:
        differences = differences.conj()
    correlation = (differences[..., 1:] * differences[..., :-1].conj()).sum(-1)
    slope = correlation.angle()
    at = torch.arange(-(n // 2), n - n // 2, device=lines.device)
    total = (differences * torch.exp(-1j * slope.unsqueeze(-1) * at)).sum(-1)
    if not total.isfinite().all() or not total.all():
        raise ValueError("estimate_phase: lines must be finite and have a signal, got none or NaN")
    return total.angle(), slope


def trapezoid(
    n_samples: int,
    n_readout: int,
    dwell_time: float,
    ramp_up: float,
    flat_top: float,
    ramp_down: float,
) -> Tensor:
    r"""Return the locations of samples that are taken under a gradient of trapezoidal shape.

    The readout is in the middle of the gradient, and its middle is the centre of k-space. With the
    area G(t) under the gradient until t, and sample j in the middle of its dwell time,

    .. math:: k_j = N \, \frac{G(t_j) - G(t_{\mathrm{middle}})}{G(t_{\mathrm{end}})
              - G(t_{\mathrm{begin}})}, \quad
              t_j = t_{\mathrm{begin}} + (j + 1 / 2) \, \tau .

    Use lines that were read backwards after turning them: ``torch.where(scan.is_reversed[:, None],
    scan.kspace.flip(-1), scan.kspace)``.

    Parameters
    ----------
    n_samples, n_readout : int
        Samples of a line, and pixels N along the readout.
    dwell_time, ramp_up, flat_top, ramp_down : float
        Times in one unit, such as microseconds. In ISMRMRD files they are
        ``scan.encoding.parameters``: ``dwellTime``, ``rampUpTime``, ``flatTopTime``,
        ``rampDownTime``.

    Returns
    -------
    Tensor
        float64, (n_samples, 1), in cycles per field of view, for a
        :class:`linops_imaging.NUFFT` along the readout.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a positive number (ramps may be 0), or the samples take longer than
        the gradient.

    Examples
    --------
    >>> trapezoid(4, 4, 1.0, 0.0, 4.0, 0.0).squeeze(1)
    tensor([-1.5000, -0.5000,  0.5000,  1.5000], dtype=torch.float64)
    >>> trapezoid(4, 8, 1.0, 2.0, 0.0, 2.0).squeeze(1)
    tensor([-3.7500, -1.7500,  1.7500,  3.7500], dtype=torch.float64)
    """
    check_integer("trapezoid", "n_samples", n_samples, 1)
    check_integer("trapezoid", "n_readout", n_readout, 1)
    check_real("trapezoid", "dwell_time", dwell_time, above=0)
    for name, value in (("ramp_up", ramp_up), ("flat_top", flat_top), ("ramp_down", ramp_down)):
        check_real("trapezoid", name, value, 0)
    total, readout = ramp_up + flat_top + ramp_down, n_samples * dwell_time
    if readout > total * (1 + 1e-6):
        raise ValueError(
            f"trapezoid: {n_samples} samples must be within the gradient of {total:g}, got "
            f"{readout:g}"
        )
    begin = (total - readout) / 2
    halves = torch.arange(2 * n_samples + 1, dtype=torch.float64)
    t = begin + dwell_time / 2 * halves
    area = t - ramp_up / 2
    if ramp_up:
        area = torch.where(t < ramp_up, t**2 / (2 * ramp_up), area)
    if ramp_down:
        late = (t - (total - ramp_down)).clamp(min=0)
        area = area - late**2 / (2 * ramp_down)
    locations = n_readout * (area - area[n_samples]) / (area[-1] - area[0])
    return locations[1::2, None]
