"""
One operator on several nodes
=============================

On a cluster every GPU has a process of its own, a rank. The ranks form a mesh. You choose which
dimension of the operator is cut along which dimension of the mesh. Each rank then holds its share
of the weights and of the data, and the ranks send each other what the operator needs. This page
plans that for a cluster, and runs it with four ranks in threads of one process.
"""

# %%
# The operator
# ------------
# An MRI scan with eight coils, as on :doc:`the page on SENSE <plot_02_sense>`. It is cut along its
# coils: a rank has two of the coil maps and the k-space of two coils, and all ranks have the image.

import torch
from matplotlib import pyplot
from torch import Tensor

import torchlinops as tl
from linops_distributed.testing import ranks_in_threads

torch.manual_seed(0)
SIZE, COILS, RANKS = 96, 8, 4
GRID, SIZES = ("Nx", "Ny"), (SIZE, SIZE)

head = tl.phantoms.shepp_logan(SIZES).to(torch.complex64)
maps = tl.phantoms.CoilSeries.around(COILS).on_grid(SIZES)
mask = tl.masks.variable_density(SIZES, acceleration=3, calibration=16)
F = tl.FFT(2, centered=True, batch_shape=("C",))
A = tl.Sampling.from_mask(mask) @ F @ tl.Dense(maps, ("C", *GRID), GRID, ("C", *GRID))
samples = A(head)
placement = {"C": "coils"}

# %%
# What would be sent?
# -------------------
# ``plan_mesh`` lists the messages, for a mesh of any size, in one process and without data. All
# ranks have the image already, so the forward operator sends nothing. The adjoint sums the images
# of all coils, and so does the normal operator.

plan = tl.plan_mesh(A, {"coils": RANKS}, placement)
print(plan)

# %%
# Four ranks
# ----------
# ``torchrun`` would start the program below on every GPU. Here four threads call it. They
# communicate by gloo, as processes do. ``local_output`` takes the share of the rank from the whole
# k-space. A rank of a cluster would read its share from a file.
#
# The solver is the same function as for one process. Its vectors are the same on all ranks.


def program(rank: int) -> tuple[Tensor, Tensor]:
    mesh = ranks.mesh(coils=RANKS)
    B = tl.distribute_linop(A, mesh, placement)
    share = B.local_output(samples)
    one_rank = torch.zeros_like(samples)
    one_rank[2 * rank : 2 * rank + 2] = share
    result = tl.conjugate_gradients(B.N, B.H(share), max_num_iters=20, gtol=0, ltol=0)
    return A.H(one_rank), result


with ranks_in_threads(RANKS) as ranks:
    parts, images = zip(*ranks.run(program), strict=True)

alone = tl.conjugate_gradients(A.N, A.H(samples), max_num_iters=20, gtol=0, ltol=0)
for image in images:
    torch.testing.assert_close(image, alone, rtol=1e-3, atol=1e-3)

# %%
# The first four images are the adjoint of the samples of each rank's coils. Their sum over the
# ranks is :math:`A^H y`. The last image is the solution, which every rank has.


figure, axes = pyplot.subplots(1, RANKS + 2, figsize=(11, 2.3), layout="constrained")
brightest = 0.7 * float(parts[0].abs().max())
by_rank = {f"rank {rank}": part for rank, part in enumerate(parts)}
tl.show(by_rank, limits=(0, brightest), upright=True, axes=axes[:RANKS])
total = A.H(samples)
limits = (0, 0.5 * float(total.abs().max()))
tl.show(total, title="their sum", limits=limits, upright=True, axes=axes[RANKS])
tl.show(images[0], title="solution", limits=(0, 0.5), upright=True, axes=axes[RANKS + 1])

# %%
# How long would it take?
# -----------------------
# The timeline of a plan uses a model of latency and bandwidth. Here a message takes 20 us, and a
# link sends 10 GB/s. A rank reads and writes 1 TB/s while it computes. The operator is a larger
# one, of 32 coils and 32 slices of 256 x 256 pixels. Its maps are one number that is expanded, so
# they need no memory here.

VOLUME = ("Nz", *GRID)
many_maps = torch.ones((), dtype=torch.complex64).expand(32, 32, 256, 256)
weight = torch.ones(()).expand(256, 256)
large = (
    tl.Diagonal.from_weight(weight, ("Kx", "Ky"), ("...", "Kx", "Ky"))
    @ tl.FFT(2, batch_shape=("C", "Nz"))
    @ tl.Dense(many_maps, ("C", *VOLUME), VOLUME, ("C", *VOLUME))
)
link = tl.linops.distributed.Link(latency=20e-6, bandwidth=10e9)


def milliseconds(n_ranks: int, dim: str) -> float:
    plan = tl.plan_mesh(large, {"ranks": n_ranks}, {dim: "ranks"})
    return 1e3 * plan.timeline("normal", link, memory_bandwidth=1e12).makespan


counts = [1, 2, 4, 8, 16, 32]
figure, place = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
for dim, name in {"C": "coils", "Nz": "slices"}.items():
    place.loglog(counts, [milliseconds(n, dim) for n in counts], "o-", base=2, label=name)
place.set(xlabel="ranks", ylabel="ms for a call of A.N (model)", xticks=counts, xticklabels=counts)
place.legend(title="what is cut")

# %%
# If the operator is cut along slices, the ranks send nothing. If it is cut along coils, each call
# sums a volume over the ranks. With many ranks, this sum takes most of the time.

# %%
# A grid in slabs
# ---------------
# A volume that is too large for one rank is itself cut: the image along one dimension, k-space
# along another. A Fourier transform needs one exchange between the ranks. The colours are the
# ranks.

volume = tl.FFT(2, batch_shape=())
slabs = tl.plan_mesh(
    volume,
    {"slabs": RANKS},
    {"Nx": "slabs", "Ky": "slabs"},
    sizes=dict(zip(GRID, SIZES, strict=True)),
    dtype=torch.complex64,
)
print(slabs)

owner = torch.arange(RANKS).repeat_interleave(SIZE // RANKS).expand(SIZES)
figure, axes = pyplot.subplots(1, 2, figsize=(5.5, 2.8), layout="constrained")
for place, ranks_of, title in zip(
    axes, (owner.T, owner), ("image: Nx", "k-space: Ky"), strict=True
):
    place.imshow(ranks_of.numpy(), cmap="tab10", vmin=0, vmax=10)
    place.set(title=title, xticks=[], yticks=[])

# %%
# :doc:`The page on clusters <../explanations/ranks>` shows how to start such a program on one
# machine, with Slurm or in Kubernetes, and what was measured. ``examples/sense_ranks.py`` is a
# complete program for ``torchrun``. Nothing on this page was run on several machines.

# sphinx_gallery_thumbnail_number = 1
