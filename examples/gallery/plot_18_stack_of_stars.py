"""
Stack of stars: a NUFFT in planes, an FFT along z
=================================================

A stack of stars measures spokes in planes, and the planes on a grid along z. ``NUFFT(dims=...)``
transforms the planes of a volume, and ``FFT(dims=...)`` its third dimension. Together they take far
less time than a NUFFT in three dimensions.
"""

# %%
# The scan
# --------
# The k-space of a head in three dimensions is known in closed form. There are 48 spokes in each of
# 24 planes. The planes are unit steps along z.

import time

import torch
from matplotlib import pyplot

import torchlinops as tl
from torchlinops.imaging import phantoms, trajectories

torch.manual_seed(0)
SIZES, SPOKES, READOUT = (64, 64, 24), 48, 128

star = trajectories.radial_2d(SPOKES, READOUT, SIZES[:2])
kz = torch.arange(SIZES[2]) - SIZES[2] // 2.0
plane = star.unsqueeze(2).expand(SPOKES, READOUT, SIZES[2], 2)
locs = torch.cat([plane, kz[:, None].expand(SPOKES, READOUT, SIZES[2], 1)], -1)
kspace = phantoms.shepp_logan_kspace(locs, SIZES)
kspace += 0.1 * kspace.abs().mean() * torch.randn_like(kspace)

figure, place = pyplot.subplots(subplot_kw={"projection": "3d"}, figsize=(4, 3.4))
for z in range(0, SIZES[2], 6):
    for spoke in range(0, SPOKES, 6):
        place.plot(*locs[spoke, :, z].T.numpy(), color=f"C{z // 6}", linewidth=0.7)
place.set_title("every sixth spoke of every sixth plane")

# %%
# The operator
# ------------
# ``dims`` are the dimensions that an operator acts on, ``shape`` all dimensions of its input, and
# ``to`` their new names. In a chain, one operator with ``shape`` is enough.

stars = tl.NUFFT(
    star,
    SIZES[:2],
    dims=("Nx", "Ny"),
    shape=("Nx", "Ny", "Nz"),
    to=("Spoke", "Readout"),
    toeplitz=True,
)
along_z = tl.FFT(dims=("Nz",), to=("Kz",), centered=True)
A = along_z @ stars
print(A)

# %%
# It is the NUFFT in three dimensions.

whole = tl.NUFFT(locs, SIZES, ("Spoke", "Readout", "Kz"))
x = torch.randn(SIZES, dtype=torch.complex64)
spent = {}
for name, linop in (("stack", A), ("three dimensions", whole)):
    linop(x)  # the first call makes plans
    start = time.perf_counter()
    y = linop(x)
    spent[name] = time.perf_counter() - start
    print(f"{name}: {1000 * spent[name]:.0f} ms")
difference = float((A(x) - whole(x)).norm() / whole(x).norm())
print(f"relative difference {difference:.1e}")
assert difference < 1e-3

# %%
# The normal operator
# -------------------
# The FFT along z is unitary, and comes last, so it cancels in ``A.N``. A convolution in each slice
# is left. Slices do not mix, so the operator can be cut there: a tile of some slices has all that
# it needs.

print(A.N)
some = slice(10, 14)
tile = A.N.split(A.N, {"Nz": some})
assert torch.allclose(tile(x[..., some]), A.N(x)[..., some], atol=1e-5)

# %%
# With planes left out, write the operators in the other order, so that the convolution is inside:
# ``stars @ Sampling(planes) @ along_z``.
#
# The volume
# ----------
# Nyquist's criterion asks for 101 spokes. The least-squares solution of 48 is regularised by the
# total variation of the volume.

image = tl.conjugate_gradients(A.N, A.H(kspace), max_num_iters=10, gtol=0, ltol=0)
grid = ("Nx", "Ny", "Nz")
smooth = tl.alg.pdhg(
    [A, tl.Gradient(grid, SIZES, boundary="replicate")],
    [tl.alg.l2_squared(1.0, kspace), tl.alg.group_soft_threshold(0.03, dim=0)],
    tl.alg.no_penalty(),
    image,
    max_num_iters=40,
    eps_rel=0,
)

head = phantoms.shepp_logan(SIZES)


def error(volume: torch.Tensor) -> float:
    return float((volume - head).norm() / head.norm())


volumes = {"head": head, "least squares": image, "total variation": smooth}
figure, axes = pyplot.subplots(2, 3, figsize=(7, 4), layout="constrained", height_ratios=(64, 24))
slices = {name: volume[..., 12] for name, volume in volumes.items()}
tl.show(slices, limits=(0, 0.6), upright=True, axes=axes[0])
along = {
    f"error {error(volume):.2f}" if name != "head" else "along z": volume[:, 28]
    for name, volume in volumes.items()
}
tl.show(along, limits=(0, 0.6), upright=True, axes=axes[1])
assert error(smooth) < error(image)

# %%
# A stack of spirals differs in the locations only: ``trajectories.spiral_2d``. K. T. Block et al.,
# "Towards routine clinical use of radial stack-of-stars 3D gradient-echo sequences for reducing
# motion sensitivity", Journal of the Korean Society of Magnetic Resonance in Medicine 18 (2014).
