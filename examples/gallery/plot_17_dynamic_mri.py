"""
Dynamic MRI: a subspace, and low rank
=====================================

While magnetisation recovers, each voxel follows a curve. The curves of all tissues are nearly
combinations of a few. In this subspace the unknowns are a few coefficient images instead of a
hundred frames, and a frame may have a few spokes only.
"""

# %%
# The scan
# --------
# After an inversion, 100 frames of 4 spokes are measured at golden angles. The object is a head
# whose tissues have different T1. It is simulated on a grid twice as fine as the one of the
# reconstruction.

import time

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.imaging import phantoms, trajectories

torch.manual_seed(0)
SIZE, FRAMES, SPOKES, COILS = 64, 100, 4, 4
SIZES, READOUT = (SIZE, SIZE), 2 * SIZE
GRID = ("Nx", "Ny")

times = 0.03 * torch.arange(1, FRAMES + 1)  # s after the inversion
T1_OF_GRAY = {1.0: 0.3, 0.2: 1.0, 0.3: 1.4, 0.1: 2.5, 0.4: 0.6}  # s


def recovery(t1: torch.Tensor) -> torch.Tensor:
    return 1 - 2 * torch.exp(-times / t1.unsqueeze(-1))


def t1_map(sizes: tuple[int, int]) -> torch.Tensor:
    head = phantoms.shepp_logan(sizes)
    grays = torch.tensor(list(T1_OF_GRAY))
    nearest = (head.unsqueeze(-1) - grays).abs().argmin(-1)
    return torch.tensor(list(T1_OF_GRAY.values()))[nearest] * (head > 0)


locs = trajectories.radial_2d(FRAMES * SPOKES, READOUT, SIZE).unflatten(0, (FRAMES, SPOKES))
coils = phantoms.CoilSeries.around(COILS)

fine = (2 * SIZE, 2 * SIZE)
slow = t1_map(fine)
head = (slow > 0) * (0.5 + phantoms.shepp_logan(fine))
names = ("C", "Frame", *GRID)
M = tl.NUFFT(locs, fine, ("Frame", "Spoke", "Readout"), batch_shape=names[:2], tol=1e-4)
moving = (head * recovery(slow.clamp(min=1e-3)).movedim(-1, 0)).to(torch.complex64)
kspace = M(coils.on_grid(fine).unsqueeze(1) * moving) / 2
kspace += 0.05 * kspace.abs().mean() * torch.randn_like(kspace)

# %%
# The subspace
# ------------
# The curves of 300 values of T1 are the columns of a dictionary. Its first four singular vectors
# represent all of them. ``Dense`` makes frames of coefficients.

dictionary = recovery(torch.logspace(-1, 0.6, 300))
basis = torch.linalg.svd(dictionary.T, full_matrices=False).U[:, :4].contiguous()
left = dictionary - dictionary @ basis @ basis.T
print(f"part of the curves that is not in the subspace: {left.norm() / dictionary.norm():.1e}")

F = tl.NUFFT(
    locs, SIZES, ("Frame", "Spoke", "Readout"), batch_shape=names[:2], tol=1e-3, toeplitz=True
)
B = tl.Dense(basis, ("Frame", "A"), ("C", "A", *GRID), names)
S = tl.Dense(coils.on_grid(SIZES), ("C", *GRID), ("A", *GRID), ("C", "A", *GRID))
A = F @ B @ S
print(A)

# %%
# The normal operator
# -------------------
# With ``toeplitz=True``, the normal operator of ``F @ B`` convolves coefficients. It keeps one
# kernel for each pair of them, ten, instead of one for each frame [1]_ [2]_. The result is that of
# all frames. ``B`` must be next to ``F``: the normal operator of ``F @ S @ B`` has the same values,
# but it takes all frames.

x = torch.randn(4, *SIZES, dtype=torch.complex64)
A.N(x)  # which makes the kernels
start = time.perf_counter()
of_pairs = A.N(x)
middle = time.perf_counter()
of_frames = A.H(A(x))
print(f"{time.perf_counter() - middle:.3f} s with all frames, {middle - start:.3f} s with pairs")
difference = float((of_pairs - of_frames).norm() / of_frames.norm())
print(f"relative difference {difference:.1e}")
assert difference < 1e-3

# %%
# Coefficients
# ------------
# Conjugate gradients find the coefficient images. A frame is a combination of them. One frame
# alone has 4 of the 101 spokes that Nyquist's criterion asks for.

found = tl.conjugate_gradients(A.N, A.H(kspace), max_num_iters=15, gtol=0, ltol=0)
tl.show(found, ("coefficient", *GRID), upright=True)

# %%
# Low rank
# --------
# Without a dictionary, one can ask for frames of low rank [3]_: the matrix of frames and voxels has
# few singular values. FISTA with the proximal map of the nuclear norm finds them. It works on all
# frames, so it takes more time and memory than a subspace.

flat = tl.Rearrange("t (x y)", "t x y", ("Frame", "P"), ("Frame", *GRID), {"x": SIZE})
E = tl.Dense(coils.on_grid(SIZES), ("C", *GRID), names[1:], names)
L = F @ E @ flat
largest = tl.alg.operator_norm(F @ E, sizes=dict(zip(names[1:], (FRAMES, *SIZES), strict=True)))
low_rank = tl.alg.fista(
    L,
    kspace,
    tl.alg.nuclear_norm(0.0005 * float(largest) ** 2),
    torch.zeros(FRAMES, SIZE * SIZE, dtype=torch.complex64),
    max_num_iters=15,
    tol=0,
)

# %%
# T1
# --
# The curve of each voxel is compared with all curves of the dictionary. The most similar one gives
# T1.

frames = {
    "subspace": torch.einsum("tk,kxy->txy", basis.to(found.dtype), found),
    "low rank": low_rank.unflatten(-1, SIZES),
}
curves = dictionary / dictionary.norm(dim=1, keepdim=True)
truth = slow.unflatten(1, (SIZE, 2))[:, :, 0].unflatten(0, (SIZE, 2))[:, 0]
pictures = {"truth": truth}
for name, series in frames.items():
    similar = torch.einsum("lt,txy->lxy", curves.to(series.dtype), series).abs()
    t1 = torch.logspace(-1, 0.6, 300)[similar.argmax(0)] * (truth > 0)
    error = float((t1 - truth).abs()[truth > 0].median())
    pictures[f"{name}, median error {1000 * error:.0f} ms"] = t1
    assert error < 0.2

figure, axes = pyplot.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
tl.show(pictures, limits=(0, 3), upright=True, axes=axes)

# %%
# .. [1] J. I. Tamir et al., "T2 shuffling: sharp, multicontrast, volumetric fast spin-echo
#    imaging", Magnetic Resonance in Medicine 77 (2017).
# .. [2] M. Mani, M. Jacob, V. Magnotta and J. Zhong, "Fast iterative algorithm for the
#    reconstruction of multishot non-Cartesian diffusion data", Magnetic Resonance in Medicine 74
#    (2015).
# .. [3] R. Otazo, E. Candès and D. K. Sodickson, "Low-rank plus sparse matrix decomposition for
#    accelerated dynamic MRI with separation of background and dynamic components", Magnetic
#    Resonance in Medicine 73 (2015).
