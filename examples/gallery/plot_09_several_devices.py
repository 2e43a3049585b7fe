"""
One operator on several devices
===============================

Say how to cut an operator and which devices there are: the tiles work at the same time, each
device gets the bytes that its tiles read, and the result is the same. This page runs without a
GPU. A list of CPUs does the same work, and simulated devices show what happens when.
"""

# %%
# A list of devices
# -----------------
# An MRI scan of eight coils (:doc:`plot_02_sense` has one with an image). ``{"C": 1}`` cuts it
# along the coils, the devices take turns over the tiles. With GPUs nothing changes but the list,
# to ``["cuda:0", "cuda:1"]``; input and output stay on the base device.

import base64

import torch
from matplotlib import pyplot

import torchlinops as tl
from linops_multigpu.testing import simulated

torch.manual_seed(0)
maps = torch.randn(8, 24, 24, dtype=torch.complex64)
mask = (torch.rand(24, 24) < 0.5).float()
S = tl.Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
M = tl.Diagonal.from_weight(mask, ("Kx", "Ky"), ("...", "Kx", "Ky"))
A = M @ tl.FFT(2, centered=True) @ S
x = torch.randn(24, 24, dtype=torch.complex64)

B = tl.create_batched_linop(A, tl.BatchSpec({"C": 1}, ["cpu", "cpu"], base_device="cpu"))
torch.testing.assert_close(B(x), A(x))
torch.testing.assert_close(B.N(x), A.N(x))

# %%
# The weights of ``B`` are those of ``A``: what is written to them is followed on every device,
# and gradients come back from there.

with torch.no_grad():
    maps.mul_(2)
torch.testing.assert_close(B(x), A(x))

# %%
# What happens when
# -----------------
# ``simulated`` makes devices ``sim:0``, ``sim:1`` and so on, which have streams, memory of their
# own and real values. It executes work in another order than it was issued, wherever that is
# allowed, and raises an error if two accesses to memory are in no certain order. Here ``sim:0``
# has the vectors and two others do the work.
#
# The plan says what is done. The image is sent once to each device; the normal operator stays
# inside of the tiles; a device adds up what its tiles return, and only sums come back.

with simulated(3):
    spec = tl.BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="sim:0")
    B = tl.create_batched_linop(A, spec)
    normal = tl.create_batched_linop(A.N, spec)
    found = normal(x.to("sim:0")).to("cpu")

print(normal.plan())
torch.testing.assert_close(found, A.N(x))

# %%
# In the forward operator each tile returns samples of its own, so there is more to collect. While
# a device works on one tile, the results of the one before are on their way. The timeline shows
# it, with work that takes three times as long as a transfer. A row is something that does one
# thing at a time: a device, or the way from one to another.


class Picture:
    def __init__(self, timeline: tl.Timeline) -> None:
        self.svg = timeline.to_svg()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{data}"
        return f'<img alt="A timeline" style="background: white" src="{source}">'


Picture(B.timeline(compute=3))

# %%
# How many devices?
# -----------------
# Transfers are hidden behind the work, but for the first and the last, as long as there is enough
# work for each. Here eight tiles are all there is: with eight devices nothing is left to hide
# behind.

counts = [1, 2, 4, 8]
figure, axes = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
with simulated(9):
    for work in (1, 3, 10):
        spans = []
        for count in counts:
            devices = [f"sim:{k}" for k in range(1, count + 1)]
            batched = tl.create_batched_linop(A, tl.BatchSpec({"C": 1}, devices, "sim:0"))
            spans.append(batched.timeline(compute=work).makespan)
        axes.plot(counts, [spans[0] / span for span in spans], "o-", label=f"work {work}")
axes.plot(counts, counts, "k:", label="perfect")
axes.set(xlabel="devices", ylabel="times as fast", xticks=counts)
axes.legend(title="transfer 1")

# %%
# What these numbers are not: a measurement. Nothing on this page was run on a GPU. What simulated
# devices can do, and what they cannot, is on :doc:`a page of its own
# <../linops-multigpu/simulated_devices>`.
#
# Several specs
# -------------
# The tiles of one spec are cut again by the next: across devices first, then within each of them
# to save memory.

across, within = tl.BatchSpec({"C": 4}, ["cpu", "cpu"]), tl.BatchSpec({"C": 1})
nested = tl.create_batched_linop(A, [across, within])
torch.testing.assert_close(nested(x), A(x))
solution = tl.conjugate_gradients(nested.N, nested.H(A(x)), max_num_iters=30)
assert (A(solution) - A(x)).norm() < 0.05 * A(x).norm()

# sphinx_gallery_thumbnail_number = 1
