"""Libraries of neighbouring fields, each with a guess that was written down before the run."""

import numpy as np
from table import row

SECTION = "Guessed first, then run"


@row(
    SECTION,
    "tensorly",
    guess="`tenalg.inner(z, z)` is the squared norm",
    here="`inner(z, z)`, which conjugates the first",
)
def tensorly_inner() -> str:
    from tensorly.tenalg import inner

    assert inner(np.array([1j, 1.0]), np.array([1j, 1.0])) == 0
    return "it conjugates nothing: 0 for (i, 1)"


@row(
    SECTION,
    "ducc0",
    guess="`fft.genuine_hartley` is `fft.genuine_fht`, both real minus imaginary part",
    here="`RealPart @ FFT` and `ImagPart @ FFT`, added",
)
def ducc_hartley() -> str:
    from ducc0 import fft

    x = np.random.default_rng(0).standard_normal((6, 5))
    transform = np.fft.fft2(x)
    assert np.allclose(fft.genuine_hartley(x), transform.real + transform.imag)
    assert np.allclose(fft.genuine_fht(x), transform.real - transform.imag)
    return "the first adds the imaginary part, the second subtracts it"


@row(
    SECTION,
    "obspy",
    guess="`correlate(a, b, shift)` is the sum of products",
    here="`Convolution`, or `correlate(a, b, shift, demean=False, normalize=None)`",
)
def obspy_correlation() -> str:
    from obspy.signal.cross_correlation import correlate

    a, b = np.array([0, 1.0, 2, 0, 0, 0]), np.array([0, 0, 1.0, 2, 0, 0])
    assert np.allclose(correlate(a, b, 2, demean=False, normalize=None), [2, 5, 2, 0, 0])
    assert np.allclose(correlate(a, b, 2)[1], 0.9286, atol=1e-4)
    return "of traces without their mean, divided by their norms: 0.93 for 5"


@row(
    SECTION,
    "obspy",
    guess="`Trace.resample` keeps what is below both Nyquist frequencies",
    here="`Pad` of `FFT(1, centered=True)`, or `resample(rate, window=None)`",
)
def obspy_resampling() -> str:
    from obspy import Trace

    sine = np.sin(2 * np.pi * 20 * np.arange(400) / 100)
    largest = []
    for options in ({}, {"window": None}):
        trace = Trace(sine.copy(), {"sampling_rate": 100.0})
        trace.resample(200.0, **options)
        largest.append(abs(trace.data[200:600]).max())
    assert largest[0] < 0.63 and largest[1] > 0.95
    return (
        "a Hann window on all frequencies: a sine of 20 Hz, sampled at 100 Hz, becomes 0.65 of it"
    )


@row(
    SECTION,
    "sigpy",
    guess="`linop.Wavelet(...).H` is the adjoint",
    here='`interop.from_pywt(shape, "bior2.2", "zero")`, whose adjoint is exact',
)
def sigpy_wavelet() -> str:
    from sigpy.linop import Wavelet

    gaps = []
    for name in ("db4", "bior2.2"):
        W = Wavelet((13,), wave_name=name)
        there = np.stack([W(row) for row in np.eye(13)], 1)
        back = np.stack([W.H(row) for row in np.eye(len(there))], 1)
        gaps.append(abs(back - there.T).max())
    assert gaps[0] < 1e-12 and 0.35 < gaps[1] < 0.36
    return "it is the inverse: for bior2.2 an entry is off by 0.35"


@row(
    SECTION,
    "sigpy",
    guess="`mri.pipe_menon_dcf` of a Cartesian grid is 1 everywhere",
    here="`density_compensation`, which is 1",
)
def sigpy_density() -> str:
    from sigpy import mri

    axis = np.arange(16) - 8.0
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    w = mri.pipe_menon_dcf(grid, img_shape=(16, 16), show_pbar=False)
    assert w.max() < 1e-11 and np.ptp(w) < 1e-6 * w.max()
    return "all weights are equal, and 3e-12: only their ratios mean something"


@row(
    SECTION,
    "mri-nufft",
    guess="`density.voronoi` and `density.cell_count` have one scale",
    here="`density_compensation`; its scale makes `A.H @ W @ A` an identity for a full grid",
)
def mrinufft_density() -> str:
    import mrinufft
    from mrinufft.density import cell_count, voronoi

    locs = mrinufft.initialize_2D_radial(8, 16).astype(np.float32).reshape(-1, 2)
    sums = voronoi(locs).sum(), cell_count(locs, (16, 16)).sum()
    assert abs(sums[1] - 1) < 1e-6 and sums[0] > 1e4
    return "the sum of the second is 1, that of the first 9e4 for 8 spokes of 16 points"


@row(
    SECTION,
    "mri-nufft",
    guess="off-resonance multiplies by exp(-2 pi i f t), as in the papers",
    here="`mri.TimeSegments(F, field_map, times)`, with the same sign",
)
def mrinufft_off_resonance() -> str:
    from mrinufft.operators.interfaces.finufft import MRIfinufft
    from mrinufft.operators.off_resonance import MRIFourierCorrected

    F = MRIfinufft(np.zeros((3, 2), np.float32), (4, 4), n_coils=1)
    field, times = np.full((4, 4), 100, np.float32), np.array([0, 1e-3, 2e-3], np.float32)
    A = MRIFourierCorrected(F, b0_map=field, readout_time=times)
    ones = np.ones((1, 1, 4, 4), np.complex64)
    assert np.allclose(np.angle(A.op(ones) / F.op(ones)), 2 * np.pi * 100 * times, atol=1e-4)
    return "by exp(2 pi i f t)"


@row(
    SECTION,
    "pypulseq",
    guess="`calculate_kspace` has (samples, 3); 8 samples of a readout are -4, ..., 3",
    here="`trajectories.convert(torch.as_tensor(k[:2].T), 'cycles/length', 8, fov=fov)`, a `NUFFT`",
)
def pypulseq_locations() -> str:
    import pypulseq

    fov, n = 0.2, 8
    scanner = pypulseq.Opts(max_grad=28, grad_unit="mT/m", max_slew=150, slew_unit="T/m/s")
    read = pypulseq.make_trapezoid("x", flat_area=n / fov, flat_time=8e-4, system=scanner)
    before = pypulseq.make_trapezoid("x", area=-read.area / 2, duration=4e-4, system=scanner)
    adc = pypulseq.make_adc(n, duration=read.flat_time, delay=read.rise_time, system=scanner)
    sequence = pypulseq.Sequence(scanner)
    pulse = pypulseq.make_block_pulse(0.1, duration=1e-4, system=scanner, use="excitation")
    for blocks in ((pulse,), (before,), (read, adc)):
        sequence.add_block(*blocks)
    k = sequence.calculate_kspace()[0]
    assert k.shape == (3, n) and np.allclose(k[0] * fov, np.arange(n) - 3.5)
    return (
        "(3, samples) in 1 / m; after a prephaser of half the area, -3.5, ..., 3.5: an FFT turns "
        "the phase of the image by half a turn across it"
    )
