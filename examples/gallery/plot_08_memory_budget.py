"""
Splitting for memory
====================

An operator may need more memory than a device has: for intermediate results, not for its weights.
When it is cut into tiles, it needs the workspace of one tile only. This page shows what tiles are,
and how much memory they take.
"""

# %%
# What tiles are
# --------------
# How an operator is cut along a dimension depends on the role of the dimension. There are four
# roles. The picture has a matrix for each; every colour is a tile. ``B`` is a batch dimension of
# the operator, ``M`` is only in its output, and ``N`` is only in its input. In the normal operator,
# ``M`` is neither in the input nor in the output, but is summed over inside. There each tile is a
# matrix of full size, and the operator is the sum of the tiles. The picture shows them one over the
# other.

import torch
from matplotlib import pyplot

import torchlinops as tl
from linops_multigpu.testing import simulated

torch.manual_seed(0)
P = tl.Dense(torch.rand(3, 4, 6), ("B", "M", "N"), ("B", "N"), ("B", "M"))


def tiles_of(A: tl.NamedLinop, sizes: dict[str, int]) -> torch.Tensor:
    """Return the number of the tile at each entry of the matrix, counted from 1."""
    lengths = [[A.size(dim) or 1 for dim in side] for side in (A.oshape, A.ishape)]
    rows, columns = (torch.arange(torch.Size(side).numel()).reshape(side) for side in lengths)
    places = torch.zeros(rows.numel(), columns.numel())
    _, ibatches, obatches = tl.split_linop(A, sizes)
    for number, (inside, outside) in enumerate(zip(ibatches, obatches, strict=True), 1):
        places[rows[tuple(outside)].reshape(-1, 1), columns[tuple(inside)].reshape(1, -1)] = number
    return torch.where(A.to_dense() == 0, torch.nan, places)


figure, axes = pyplot.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
cases = [(P, "B", 1), (P, "M", 1), (P, "N", 2), (P.N, "M", 1)]
for place, (A, dim, size) in zip(axes, cases, strict=True):
    place.imshow(tiles_of(A, {dim: size}).numpy(), cmap="tab10", vmin=1, vmax=10, aspect="auto")
    place.set_title(f"{dim}: {A.role(dim)}")
    place.set(xticks=[], yticks=[])

# %%
# A scan in tiles
# ---------------
# The normal operator of an MRI scan makes an image for each of eight coils, and transforms each of
# them forward and back. ``batched`` works on two coils at a time. Tiles are views of the
# weights, so cutting needs no memory.

maps = torch.randn(8, 64, 64, dtype=torch.complex64)
S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
M = tl.Diagonal.from_weight((torch.rand(64, 64) < 0.4).float(), ("Kx", "Ky"), ("...", "Kx", "Ky"))
A = M @ tl.FFT(2, centered=True) @ S
x = torch.randn(64, 64, dtype=torch.complex64)

B = tl.batched(A, {"C": 2})
torch.testing.assert_close(B.N(x), A.N(x))
torch.testing.assert_close(B(x), A(x))

# %%
# How much memory?
# ----------------
# A simulated device counts the bytes of the tensors that exist at the same time. Here is the peak
# of a call, without the memory that was in use before it. (On a GPU, use
# ``torch.cuda.max_memory_allocated``.) An image has 32 KiB.


def peak(linop: tl.NamedLinop, x: torch.Tensor) -> int:
    """Return how many bytes a call takes at most, its result included."""
    with simulated(1) as world:
        there, vector = linop.with_weights(lambda w: w.detach().to("sim:0")), x.to("sim:0")
        there(vector)
        world.synchronize()
        before = world.allocated_nbytes("sim:0")
        world.reset_peak()
        there(vector)
        world.synchronize()
        return world.peak_nbytes("sim:0") - before


sizes = [1, 2, 4, 8]
kib = [peak(tl.batched(A, {"C": size}).N, x) / 1024 for size in sizes]
for size, found in zip(sizes, kib, strict=True):
    print(f"{size} at a time: {found:.0f} KiB")

figure, axes = pyplot.subplots(figsize=(6, 3), layout="constrained")
axes.plot(sizes, kib, "o-")
axes.set(xlabel="coils at a time", ylabel="KiB for a call of A.N", xticks=sizes, ylim=(0, None))
assert kib == sorted(kib) and kib[0] < kib[-1] / 3

# %%
# Which tiles fit?
# ----------------
# ``plan_batches`` chooses the sizes of tiles for a budget, here of 512 KiB. It runs the operator
# without data and counts what would be allocated. Here it predicts what the simulated device
# counts. It may also predict more, because it includes memory that torch allocates inside of an
# operation.

plan = tl.plan_batches(A, 2**19, work="normal")
print(plan)

chosen = tl.batched(A, plan)
taken = peak(chosen.N, x)
print(f"predicted {plan.peak} bytes, counted {taken}")
torch.testing.assert_close(chosen.N(x), A.N(x))
assert taken <= plan.budget < kib[-1] * 1024

# %%
# If no tiles fit into the budget, an error names the smallest budget that is enough.

try:
    tl.plan_batches(A, 1000, work="normal")
except tl.SplitError as refused:
    print(refused)

# %%
# :doc:`The page about planning <../linops-split/planning>` says how it searches, and how good its
# predictions are.

# sphinx_gallery_thumbnail_number = 1
