"""
Total variation and wavelets side by side
=========================================

Many images explain a scan with few, noisy samples. A penalty chooses among them: the image with few
edges (total variation, TV [1]_), or the one with few large wavelet coefficients [2]_.
"""

# %%
# The scan
# --------
# The object is a head of ellipses with eight coils around it. Its k-space is known in closed form,
# so it is not simulated with the operator that reconstructs it. A sixth of the points is measured.

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.imaging import masks, phantoms

torch.manual_seed(0)
SIZE = 128
GRID, SIZES = ("Nx", "Ny"), (SIZE, SIZE)

head = phantoms.shepp_logan(SIZES)
coils = phantoms.CoilSeries.around(8)
maps = coils.on_grid(SIZES)
mask = masks.poisson_disc(SIZES, acceleration=6, calibration=16)

S = tl.Dense(maps, ("C", *GRID), GRID, ("C", *GRID))
F = tl.FFT(2, centered=True)
A = tl.Sampling.from_mask(mask) @ F @ S

locs = mask.nonzero() - SIZE // 2.0
kspace = phantoms.shepp_logan_kspace(locs, SIZES, coils)
y = kspace + 0.05 * kspace.abs().mean() * torch.randn_like(kspace)
print(A.signature)

# %%
# Without a penalty
# -----------------
# Least squares also fit the noise.

zero_filled = A.H(y)
plain = tl.conjugate_gradients(A.N, zero_filled, max_num_iters=15, gtol=0, ltol=0)

# %%
# Total variation
# ---------------
# The gradient of an image has one component for each dimension of the grid, along the first axis of
# the output. Isotropic total variation is the sum of the lengths of these vectors. So the entries
# along axis 0 form a group:
#
# .. math:: \min_x \tfrac12 |A x - y|^2 + \lambda \sum_n |(G x)_n|_2 .

G = tl.Gradient(GRID, SIZES, boundary="replicate")
print(G)
weight = 0.002 * float(zero_filled.abs().max())
flat = tl.alg.admm(
    A, y, tl.alg.group_soft_threshold(weight, dim=0), G, max_num_iters=20, rho=0.05, max_cg_iters=5
)

# %%
# Wavelets
# --------
# The transform W is unitary. So the proximal map of a penalty on the coefficients is: apply W,
# shrink the coefficients, apply the adjoint of W. The coarse approximation in the first corner is
# not sparse, so it has no penalty.

W = tl.Wavelet("db4", GRID, SIZES, n_levels=3)
weights = torch.full(SIZES, weight)
weights[: SIZE >> 3, : SIZE >> 3] = 0
sparse = tl.alg.fista(
    A, y, tl.alg.in_basis(W, tl.alg.soft_threshold(weights)), max_num_iters=30, tol=0
)

# %%
# Side by side
# ------------
# The head is piecewise constant, which suits total variation. Below each image is its difference
# from the head, five times as bright. All images differ at the edges: each pixel of the drawn head
# is either inside or outside of an ellipse, but the scan measured a limited range of frequencies.


def error(x: torch.Tensor) -> float:
    return float((x - head).norm() / head.norm())


images = {"least squares": plain, "total variation": flat, "wavelets": sparse}
figure, axes = pyplot.subplots(2, 4, figsize=(10, 5.2), layout="constrained")
tl.show({"head": head} | images, limits=(0, 0.5), upright=True, axes=axes[0])
tl.show(mask, title="points measured", upright=True, axes=axes[1, 0])
differences = {f"error {error(image):.3f}": (image - head).abs() for image in images.values()}
tl.show(differences, limits=(0, 0.1), upright=True, axes=axes[1, 1:])

assert error(flat) < error(sparse) < error(plain)

# %%
# What is penalised
# -----------------
# Total variation penalises the lengths of the gradients, shown on the left. The other penalty is on
# the wavelet coefficients, on the right. Both have few large values in this head.

penalised = {"lengths of gradients": G(head).norm(dim=0), "wavelet coefficients": W(head).abs()}
tl.show(penalised, limits=(0, 0.3), upright=True)

# %%
# .. [1] L. I. Rudin, S. Osher, E. Fatemi, "Nonlinear total variation based noise removal
#    algorithms", Physica D 60, 1992.
# .. [2] M. Lustig, D. Donoho, J. M. Pauly, "Sparse MRI: The application of compressed sensing for
#    rapid MR imaging", Magnetic Resonance in Medicine 58, 2007.
