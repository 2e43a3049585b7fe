"""Wavelets and Fourier transforms."""

import numpy as np
import torch
from table import row

WAVELETS, FOURIER = "Wavelets", "Fourier transform"


@row(
    WAVELETS,
    "pywavelets",
    guess='"periodization" of an orthonormal wavelet keeps energy',
    here="`Wavelet` appends zeros and keeps energy; `interop.from_pywt` has PyWavelets' numbers",
)
def pywavelets() -> str:
    import pywt

    ratios = []
    for n in (8, 9):
        x = np.arange(n) ** 2.0
        packed, _ = pywt.coeffs_to_array(pywt.wavedec(x, "db2", "periodization", 1))
        ratios.append(float((packed**2).sum() / (x**2).sum()))
    assert abs(ratios[0] - 1) < 1e-12 and ratios[1] > 1.1, ratios
    return f"for even sizes only: the energy of 0, 1, 4, .., 64 becomes {ratios[1]:.3g} of it"


@row(
    WAVELETS,
    "ptwt",
    guess="PyWavelets' default extension",
    here="`interop.from_ptwt` and `interop.from_pywt`, each with its default",
)
def ptwt() -> str:
    import ptwt as library
    import pywt

    x = np.random.default_rng(0).standard_normal(17)
    found = library.wavedec(torch.from_numpy(x[None]), "db2", level=1)[0][0].numpy()
    assert np.allclose(found, pywt.dwt(x, "db2", "reflect")[0])
    assert not np.allclose(found, pywt.dwt(x, "db2")[0])
    return '"reflect", where PyWavelets has "symmetric"'


@row(
    WAVELETS,
    "sigpy",
    guess="as many coefficients as pixels",
    here="`Wavelet`, or `interop.from_pywt(..., mode='zero')`",
)
def sigpy() -> str:
    import sigpy as library

    shape = library.linop.Wavelet((64, 64)).oshape
    return f"64 x 64 pixels have {shape[0]} x {shape[1]} coefficients of db4"


@row(
    WAVELETS,
    "odl",
    guess="`WaveletTransform(...).adjoint` of an orthogonal wavelet is the adjoint",
    here="`interop.from_odl` refuses the others; `Wavelet` has an exact adjoint",
)
def odl_wavelets() -> str:
    import odl

    gaps = {}
    for mode in ("constant", "symmetric", "periodic", "pywt_periodic"):
        for n in (8, 7):
            space = odl.uniform_discr([0, 0], [n, n], (n, n))
            operator = odl.trafos.WaveletTransform(space, "db2", nlevels=1, pad_mode=mode)
            rng = np.random.default_rng(0)
            x = space.element(rng.standard_normal(space.shape))
            y = operator.range.element(rng.standard_normal(operator.range.shape))
            Ax, Ay = operator(x), operator.adjoint(y)
            gaps[mode, n] = abs(Ax.inner(y) - x.inner(Ay)) / (Ax.norm() * y.norm())
    right = {case for case, gap in gaps.items() if gap < 1e-12}
    assert right == {("constant", 8), ("constant", 7), ("pywt_periodic", 8)}, gaps
    return (
        'it is the inverse: the adjoint for "constant", and for "pywt_periodic" if sizes are even; '
        'not for "symmetric" and "periodic"'
    )


@row(
    FOURIER,
    "pylops",
    guess="a real FFT has the first half of the values of the complex one",
    here="`RealFFT`, `FFT(norm=)`; `interop.from_pylops` keeps PyLops' numbers",
)
def pylops() -> str:
    import pylops as library

    x = np.random.default_rng(0).standard_normal(8)
    ratio = library.signalprocessing.FFT(8, real=True) @ x / np.fft.rfft(x, norm="ortho")
    assert np.allclose(ratio, [1, *[np.sqrt(2)] * 3, 1]), ratio
    return "values between the first and the last are larger by sqrt(2), so that it is an isometry"


@row(
    FOURIER,
    "odl",
    guess="`FourierTransform(space).adjoint` is the adjoint",
    here="`FFT(centered=True)`; `interop.from_odl` refuses it",
)
def odl() -> str:
    import odl as library

    space = library.uniform_discr([0], [1], [8], dtype="complex128")
    transform = library.trafos.FourierTransform(space)
    x = space.element(np.random.default_rng(0).standard_normal(8) + 0j)
    back = transform.adjoint(transform(x)).asarray()
    assert np.allclose(back, x.asarray())
    return "it is the inverse; the transform is a centred DFT times a sinc, so these differ"


@row(
    FOURIER,
    "deepinv",
    guess="`MRI` has index 0 at frequency 0, as torch.fft has",
    here="`FFT(2, centered=True)`",
)
def deepinv() -> str:
    import deepinv as library

    physics = library.physics.MRI(mask=torch.ones(1, 1, 4, 5), img_size=(1, 2, 4, 5))
    x = torch.zeros(1, 2, 4, 5)
    x[0, 0, 2, 3] = 1
    expected = torch.cos(2 * torch.pi * (torch.arange(5) - 2) / 5) / 20**0.5
    assert torch.allclose(physics.A(x)[0, 0, 0], expected, atol=1e-6)
    return "both sides are centred at N // 2, and it is unitary; images are two real channels"
