"""
Off-resonance, and motion between shots
=======================================

While a long spiral is read, spins precess at the frequency of the local field. The image is blurred
if the operator does not know this. ``mri.TimeSegments`` adds a field map to any transform. Between
shots a patient moves. ``mri.rigid_motion`` adds the poses of shots, and ``mri.fit_motion`` finds
them.
"""

# %%
# The scan
# --------
# Eight spirals of 20 ms each, and a field that is up to 130 Hz off near an air cavity. The samples
# are the exact sum over all voxels, not those of the operator below.

import math

import torch

import torchlinops as tl
from torchlinops import mri, phantoms, trajectories

torch.manual_seed(0)
SIZE, SHOTS, READOUT = 64, 8, 1000
SIZES = (SIZE, SIZE)

locs = trajectories.spiral_2d(SHOTS, READOUT, SIZE)
times = torch.linspace(0.001, 0.021, READOUT)  # s
head = phantoms.shepp_logan(SIZES)

at = torch.arange(SIZE) - SIZE // 2
x, y = at[:, None] / SIZE, at / SIZE
distance = (x.square() + (y - 0.3).square()) / 0.02
field = 130 * torch.exp(-distance) - 60 * x - 20  # Hz


def exact_samples(image: torch.Tensor) -> torch.Tensor:
    """Return the sum over all voxels, for some samples of all shots at a time."""
    r = torch.stack(torch.meshgrid(at, at, indexing="ij"), -1).reshape(-1, 2) / SIZE
    results = []
    for some, now in zip(locs.split(100, 1), times.split(100), strict=True):
        turns = now[:, None] * field.reshape(-1) - some @ r.T
        results.append(torch.polar(torch.ones_like(turns), 2 * math.pi * turns) @ image.reshape(-1))
    return torch.cat(results, 1) / SIZE


kspace = exact_samples(head.to(torch.complex64))
kspace += 0.02 * kspace.abs().mean() * torch.randn_like(kspace)

# %%
# Time segments
# -------------
# An exponential in time and frequency is a sum of products. ``TimeSegments`` has one transform for
# each term, of the image whose phase evolved until the middle of a segment. The weights of the
# terms fit all frequencies of the map in least squares. ``tol`` chooses the number of segments.

F = tl.NUFFT(locs, SIZES, ("Shot", "Readout"), tol=1e-4, toeplitz=True)
A = mri.TimeSegments(F, field, times, tol=1e-3)
print(A)

for n in (2, 4, 6, 8):
    print(f"{n} segments: error {mri.TimeSegments(F, field, times, n).error:.1e}")

# %%
# The sign
# --------
# The field map is the frequency by which the phase of the *image* grows:
#
# .. math:: y_j = \sum_r x_r \, e^{+2 \pi i f_r t_j} \, e^{-2 \pi i \, l_j \cdot r / N} .
#
# Two echoes, reconstructed with the sign of ``NUFFT`` and ``FFT``, give f with this sign. So use
# them to find the sign for the data of a scanner.

echoes = [
    tl.FFT(2, centered=True).H(
        tl.FFT(2, centered=True)(
            head * torch.polar(torch.ones_like(field), 2 * math.pi * field * echo)
        )
    )
    for echo in (0.002, 0.004)
]
measured = (echoes[0].conj() * echoes[1]).angle() / (2 * math.pi * 0.002)
assert torch.allclose(measured[head > 0.05], field[head > 0.05], atol=0.1)

# %%
# Other programs, run with the same map on one trajectory in our unit and order:
#
# ===================  ==================================  ==============================
# Program              Phase                               Decay
# ===================  ==================================  ==============================
# ``TimeSegments``     :math:`e^{+2 \pi i f t}`             :math:`e^{-R t}`
# mri-nufft 1.5.1      :math:`e^{+2 \pi i f t}`             :math:`e^{+R t}`, so give it -R
# sigpy 0.1.27         :math:`e^{-2 \pi i f t}`             none
# Sutton et al.        :math:`e^{-2 \pi i f t}`             none
# ===================  ==================================  ==============================
#
# With the sign of sigpy and of the papers, pass -f.
#
# The concomitant field of the gradients (Maxwell terms), :math:`B_c`, adds to the main field, and
# is never negative. So in Hz it has the sign that f has where the main field is higher. It is
# zero in the isocentre. For a constant gradient it is a map in Hz, which is added to f.
#
# Images
# ------
# ``A.N`` is a convolution for each pair of segments, so that no samples are computed.


def solved(linop: tl.NamedLinop) -> torch.Tensor:
    return tl.conjugate_gradients(linop.N, linop.H(kspace), max_num_iters=12, gtol=0, ltol=0)


def error(image: torch.Tensor) -> float:
    return float((image - head).norm() / head.norm())


blurred, sharp = solved(F), solved(A)
pictures = {
    "field ignored": blurred,
    f"{A.n_segments} segments": sharp,
}
tl.show(
    {f"{name}, error {error(image):.2f}": image for name, image in pictures.items()},
    limits=(0, 0.6),
    upright=True,
)
assert error(sharp) < 0.5 * error(blurred)

# %%
# Segments are summed one by one if the operator is cut along them. The memory is then that of one
# image, not of all segments.

one_by_one = tl.batch_linop(A, {"Segment": 1})
assert torch.allclose(one_by_one(head), A(head), atol=1e-4)

# %%
# Motion
# ------
# The head turns and shifts before each shot. ``rigid_motion`` turns the locations and gives the
# samples a phase, so no image is interpolated, and the adjoint is exact.

shifts = torch.randn(SHOTS, 2).cumsum(0)  # voxels
angles = (0.05 * torch.randn(SHOTS)).cumsum(0)  # radians
shifts, angles = shifts - shifts[0], angles - angles[0]  # the first shot is the reference
moving = mri.rigid_motion(F, shifts, angles)
kspace = moving(head)
kspace += 0.02 * kspace.abs().mean() * torch.randn_like(kspace)

# %%
# The poses are unknown, but a scout was measured before: an image of low resolution. The first
# samples of each spiral, near the centre of k-space, tell how it moved. ``fit_motion`` finds the
# poses that explain them best. Afterwards the image and the poses are refined in turns.

near = tl.NUFFT(locs[:, :200], SIZES, ("Shot", "Readout"), tol=1e-4, toeplitz=True)
scout = tl.conjugate_gradients(near.N, near.H(near(head)), max_num_iters=10, gtol=0, ltol=0)
poses = mri.fit_motion(near, scout, kspace[:, :200], max_num_iters=20)
for turn in range(3):
    off = (poses.shifts - shifts).abs().max(), (poses.rotations - angles).abs().max()
    print(f"turn {turn}: poses off by {off[0]:.3f} voxels and {off[1]:.4f} radians")
    image = solved(mri.rigid_motion(F, *poses))
    shifted, turned = poses
    poses = mri.fit_motion(F, image, kspace, shifts=shifted, rotations=turned, max_num_iters=3)

pictures = {
    "motion ignored": solved(F),
    "poses fitted": solved(mri.rigid_motion(F, *poses)),
    "poses known": solved(moving),
}
tl.show(
    {f"{name}, error {error(image):.2f}": image for name, image in pictures.items()},
    limits=(0, 0.6),
    upright=True,
)
assert error(pictures["poses fitted"]) < 0.5 * error(pictures["motion ignored"])

# %%
# The methods: B. P. Sutton, D. C. Noll and J. A. Fessler, IEEE Transactions on Medical Imaging 22
# (2003), and J. A. Fessler et al., IEEE Transactions on Signal Processing 53 (2005), for segments;
# M. A. Bernstein et al., "Concomitant gradient terms in phase contrast MR", Magnetic Resonance in
# Medicine 39 (1998); L. Cordero-Grande et al., IEEE Transactions on Computational Imaging 2 (2016),
# for motion.
