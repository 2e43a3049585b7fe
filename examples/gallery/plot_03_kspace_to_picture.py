"""
From k-space to a picture: coil maps from the scan itself
=========================================================

A scanner saves the k-space of many coils and a measurement of noise. This page makes a picture of
them in four steps: make the noise white, combine the coils into fewer, find coil maps in the centre
of k-space by ESPIRiT, and solve SENSE by conjugate gradients.
"""

# %%
# What the scanner saves
# ----------------------
# The object is a head of ellipses with 16 coils around it. Its k-space is known in closed form, so
# it is not simulated with the operator that reconstructs it. The noise of the coils is correlated,
# and some are three times as noisy as others. A third of k-space is measured, with all of its
# centre. ``torchlinops.io`` reads files with real scans.

import torch
from matplotlib import pyplot

import torchlinops as tl

SIZE, COILS = 128, 16
torch.manual_seed(0)

coils = tl.phantoms.CoilSeries.around(COILS)
axis = torch.arange(SIZE) - SIZE // 2
locs = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).float()
mask = tl.masks.variable_density([SIZE, SIZE], acceleration=3, calibration=24)

mixing = 0.3 * torch.randn(COILS, COILS, dtype=torch.complex64) + torch.eye(COILS)
mixing *= 0.01 * torch.logspace(0, 0.5, COILS).unsqueeze(1)
noise = mixing @ torch.randn(COILS, 4096, dtype=torch.complex64)  # measured without a pulse

complete = tl.phantoms.shepp_logan_kspace(locs, [SIZE, SIZE], coils)
kspace = complete + torch.einsum("cd,dxy->cxy", mixing, torch.randn_like(complete))
kspace *= mask

# %%
# White noise, and fewer coils
# ----------------------------
# ``prewhiten`` mixes the coils so that the noise of each has variance 1 and is not correlated with
# the others. Least squares are then the best linear estimate, and singular vectors separate signal
# from noise. ``compress_coils`` returns the 8 mixtures of the coils that have the most energy.

white, whitening = tl.mri.prewhiten(kspace, tl.mri.noise_covariance(noise))
data, compression = tl.mri.compress_coils(white, 8)
print(f"half of the coils have {data.norm() ** 2 / white.norm() ** 2:.2%} of the energy")

# %%
# Coil maps
# ---------
# Neighbouring points of k-space depend on each other, because coil maps are smooth. ESPIRiT learns
# this dependence from the 24 x 24 points in the middle. At each pixel, the map is an eigenvector.
# Its eigenvalue is 1 where there is signal. Where it is below 0.8, the map is set to zero.

maps, eigenvalues = tl.mri.espirit(data, "C", ("Kx", "Ky"), return_eigenvalues=True)


pictures = {"measured": mask, "eigenvalue": eigenvalues, "map": maps[:3]}
tl.show(pictures, limits=(0, 1), upright=True)

# %%
# The picture
# -----------
# The root of the sum of squares of the coils' images needs no maps, but has the noise and the
# artefacts of all coils. SENSE finds one image that explains the samples of all coils.

F = tl.FFT(2, centered=True)
S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
A = tl.Sampling.from_mask(mask) @ F @ S
samples = data[:, mask]
found = tl.conjugate_gradients(A.N, A.H(samples), max_num_iters=20, gtol=1e-2, ltol=0)

# %%
# The maps have norm 1 at each pixel, so the image is as bright as the root of the sum of squares.
# Both are compared with the root of the sum of squares of a full scan without noise.


def root_sum_of_squares(kspace: torch.Tensor) -> torch.Tensor:
    """Return the image from all coils, with zeros for the samples that were not measured."""
    images: torch.Tensor = F.H(kspace)
    picture: torch.Tensor = images.norm(dim=0)
    return picture


matrix = compression @ whitening
expected = root_sum_of_squares(torch.einsum("vc,cxy->vxy", matrix, complete))
pictures = {"root of squares": root_sum_of_squares(data), "SENSE": found.abs()}
errors = []
figure, axes = pyplot.subplots(2, 3, figsize=(7.5, 5.4), layout="constrained")
largest = 0.5 * float(expected.max())
above = {"without noise, all measured": expected} | pictures
tl.show(above, limits=(0, largest), upright=True, axes=axes[0])
below = {"one of the 8 coils, twice as bright": F.H(data[0])}
for picture in pictures.values():
    errors.append(float((picture - expected).norm() / expected.norm()))
    below[f"error {errors[-1]:.2f}, twice as bright"] = (picture - expected).abs()
tl.show(below, limits=(0, largest / 2), upright=True, axes=axes[1])

assert errors[1] < 0.6 * errors[0]

# %%
# The methods: K. P. Pruessmann et al., Magnetic Resonance in Medicine 42 (1999) and 46 (2001), for
# SENSE and white noise; M. Buehrer et al., the same journal, 57 (2007), for fewer coils; M. Uecker
# et al., the same journal, 71 (2014), for ESPIRiT.
