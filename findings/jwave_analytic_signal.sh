#!/usr/bin/env bash
# j-Wave, signal_processing. Guessed: analytic_signal is that of SciPy (exp(i w t) of a cosine, with x as its
# real part); smoothing keeps a constant in each dimension; Fourier interpolation keeps the samples of any
# size. Seen on 29 November 2026 (jwave 0.2.1, JAX 0.4.38, NumPy 2.2.6, SciPy 1.17.1, CPU, Python 3.11):
# analytic_signal has exp(-i w t) of a cosine, and loses the mean; of a constant 1 in three dimensions the
# filter of smoothing_filter makes 0, and it keeps what changes sign from pixel to pixel, unlike in one and two
# dimensions, and unlike smooth; fourier_upsample of odd sizes is complex, and off by more than 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numpy==2.2.6 scipy==1.17.1 jax==0.4.38 jaxlib==0.4.38 jwave==0.2.1
"$folder/env/bin/python" -W ignore - <<'PYTHON'
from importlib.metadata import version

import jax.numpy as jnp
import numpy as np
from jwave.signal_processing import analytic_signal, fourier_upsample, smooth, smoothing_filter
from scipy.signal import hilbert

print("jwave", version("jwave"))
for n in (64, 65):
    wave = 2 * np.pi * 4 * np.arange(n) / n
    found = np.asarray(analytic_signal(jnp.asarray(np.cos(wave) + 0.5, jnp.float32)))
    theirs = hilbert(np.cos(wave) + 0.5)
    print(
        f"{n} samples of cos(w t) + 0.5: from exp(-i w t) by {abs(found - np.exp(-1j * wave)).max():.0e}; "
        f"SciPy from exp(i w t) + 0.5 by {abs(theirs - np.exp(1j * wave) - 0.5).max():.0e}"
    )
    assert np.allclose(theirs, np.exp(1j * wave) + 0.5), "the behaviour has changed"
    assert np.allclose(found, np.exp(-1j * wave), atol=1e-5), "the behaviour has changed"

for dimensions in (1, 2, 3):
    shape = (16,) * dimensions
    constant = jnp.ones(shape, jnp.float32)
    signs = jnp.asarray((-1.0) ** np.indices(shape).sum(0), jnp.float32)
    of_filter = smoothing_filter(constant)
    found = [float(abs(f(x)).max()) for f in (of_filter, smooth) for x in (constant, signs)]
    print(f"{dimensions} dimensions: of 1 and of signs the filter makes {found[:2]}, smooth {found[2:]}")
    assert np.allclose(found[2:], (1, 0), atol=1e-5), "the behaviour has changed"
    assert np.allclose(found[:2], (0, 1) if dimensions == 3 else (1, 0), atol=1e-5), "the behaviour has changed"

for n in (16, 17):
    line = np.cos(2 * np.pi * 2 * np.arange(n) / n)
    found = np.asarray(fourier_upsample(jnp.asarray(line[:, None], jnp.float32), 2))[::2, 0]
    gap, imaginary = abs(found - line).max(), abs(found.imag).max()
    print(f"upsampling from {n}: samples are off by {gap:.0e}, imaginary parts up to {imaginary:.0e}")
    assert (gap > 1 and imaginary > 0.1) if n % 2 else gap < 1e-6, "the behaviour has changed"
PYTHON
