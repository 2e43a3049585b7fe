"""
MRI in one call
===============

``tl.recon`` has the usual reconstructions of MRI: SENSE, wavelets, total variation, and low rank
plus sparse. Give k-space and the names of its axes. This page shows what they need and return. Each
of them is a short function, shown at the end, that you can copy and change.
"""

# %%
# A scan
# ------
# A head of ellipses, eight coils, a fifth of k-space, and noise. Here k-space is an array of NumPy
# with the coils on the last axis, as some files have it. Points that were not measured are 0.

import inspect

import numpy as np
import torch

import torchlinops as tl

torch.manual_seed(0)
SIZE = (128, 128)
head = tl.phantoms.shepp_logan(SIZE)
coils = tl.phantoms.CoilSeries.around(8)
mask = tl.masks.poisson_disc(SIZE, acceleration=5, calibration=20)
scan = tl.FFT(2, centered=True)(coils.on_grid(SIZE) * head)
scan = mask * (scan + 0.02 * torch.randn_like(scan))
kspace = scan.movedim(0, -1).numpy()

# %%
# Name the axes
# -------------
# ``dims`` says which axis is what, so nothing is guessed: ``C`` are the coils, and names with K are
# k-space. Coil maps are made from the centre of k-space. The image is an array of NumPy again; for
# tensors it is a tensor.

dims = ("Kx", "Ky", "C")
record = tl.Record()
images = {
    "SENSE": tl.recon.sense(kspace, dims, callback=record),
    "wavelets": tl.recon.l1_wavelet(kspace, dims),
    "total variation": tl.recon.total_variation(kspace, dims),
}
print(type(images["SENSE"]), images["SENSE"].shape)
print(record)


def error(x: np.ndarray | torch.Tensor) -> float:
    """Return the error of an image; maps scale the head by the root of a sum of squares."""
    target = head * coils.on_grid(SIZE).norm(dim=0)
    return float((torch.as_tensor(x).abs() - target).norm() / target.norm())


titles = {f"{name}, error {error(x):.2f}": x for name, x in images.items()}
tl.show(titles, limits=(0, 0.6), upright=True)
assert error(images["total variation"]) < error(images["SENSE"])

# %%
# Little memory
# -------------
# ``memory`` is a budget for the work of the operator. Coils, slices and frames are then computed a
# few at a time, with the same result. ``progress=True`` shows a bar.

small = tl.recon.sense(kspace, dims, memory="1 MB")
print(np.abs(small - images["SENSE"]).max() / np.abs(small).max())
assert np.allclose(small, images["SENSE"], atol=1e-4)

# %%
# Along a trajectory
# ------------------
# ``locs`` has the locations of the samples, and ``grid_size`` the size of the image. Here 40 spokes
# are measured, a third of what the image needs.

locs = tl.trajectories.radial_2d(40, 128, SIZE)
spokes = tl.phantoms.shepp_logan_kspace(locs, SIZE, coils)
radial = {
    function.__name__: function(spokes, ("C", "K1", "K2"), locs=locs, grid_size=SIZE)
    for function in (tl.recon.sense, tl.recon.total_variation)
}
tl.show(radial, limits=(0, 0.6), upright=True)

# %%
# A series of images
# ------------------
# Contrast arrives in three spots, and each frame has only an eighth of k-space. The sum of a part
# of low rank, the background, and a part that is sparse in the frequencies of time explains the
# series [1]_. A larger ``low_rank_weight`` moves more into the sparse part; here the bright
# skull is in both. All frames share the coil maps of their mean.

N_FRAMES = 16
x, y = torch.meshgrid(torch.linspace(-1, 1, 96), torch.linspace(-1, 1, 96), indexing="ij")
frames = tl.phantoms.shepp_logan((96, 96)).repeat(N_FRAMES, 1, 1)
for place, start in (((0.1, 0.1), 0.0), ((-0.3, 0.2), 0.5), ((0.4, -0.2), -0.8)):
    spot = (x - place[0]) ** 2 + (y - place[1]) ** 2 < 0.02
    frames += 0.4 * spot * (torch.linspace(0, 3.1, N_FRAMES) + start).sin().clamp(0)[:, None, None]
masks = torch.stack(
    [tl.masks.poisson_disc((96, 96), 8, calibration=12, seed=t) for t in range(N_FRAMES)]
)
maps = coils.on_grid((96, 96))
series = masks[:, None] * tl.FFT(2, centered=True)(maps * frames[:, None])

parts = tl.recon.low_rank_plus_sparse(series, ("T", "C", "Kx", "Ky"))
background, changes = (part.abs() for part in parts)
shown = {"background": background[8], "changes, frame 2": changes[2], "frame 8": changes[8]}
tl.show(shown | {"their sum": (parts.low_rank + parts.sparse)[8]}, limits=(0, 0.6), upright=True)
assert changes.norm() < 0.5 * background.norm()

# %%
# The source is short
# -------------------
# ``scan_of`` checks the axes and makes the operator :math:`A = W F S` of coil maps, Fourier
# transform and weights. The rest is a penalty and a solver.

_, _, body = inspect.getsource(tl.recon.total_variation).rpartition('"""')
print(body)

# %%
# .. [1] R. Otazo, E. Candes, D. K. Sodickson, "Low-rank plus sparse matrix decomposition for
#    accelerated dynamic MRI with separation of background and dynamic components", Magnetic
#    Resonance in Medicine 73, 2015.
