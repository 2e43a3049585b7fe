"""
One operator on several devices
===============================

Name the dimension to cut and the devices to use. The devices work at the same time, each gets the
bytes that its tiles read, and the result is the same. This page runs without a GPU: a list of CPUs
does the same work, and simulated devices show the order of the work.
"""

# %%
# A list of devices
# -----------------
# The operator is an MRI scan of eight coils, as in :doc:`plot_02_sense`. ``{"C": 1}`` cuts it into
# tiles of one coil, which are assigned to the devices in turn. With GPUs, only the list changes, to
# ``["cuda:0", "cuda:1"]``. Input and output stay on the base device.

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
# ``B`` uses the weights of ``A``. If you change them, every device gets the new values. Gradients
# of all devices are summed in these weights.

with torch.no_grad():
    maps.mul_(2)
torch.testing.assert_close(B(x), A(x))

# %%
# The order of execution
# ----------------------
# ``simulated`` makes devices ``sim:0``, ``sim:1`` and so on, with streams, memory and real values.
# It executes work in another order than the program, where streams allow it. It raises an error if
# the order of two accesses to the same memory is not certain. Here ``sim:0`` has the vectors, and
# two other devices do the work.
#
# The plan lists the steps. The image is sent once to each device. Each tile applies its own normal
# operator. A device adds up the results of its tiles, and only the sums are sent back.

with simulated(3):
    spec = tl.BatchSpec({"C": 1}, ["sim:1", "sim:2"], base_device="sim:0")
    B = tl.create_batched_linop(A, spec)
    normal = tl.create_batched_linop(A.N, spec)
    found = normal(x.to("sim:0")).to("cpu")

print(normal.plan())
torch.testing.assert_close(found, A.N(x))

# %%
# In the forward operator, each tile returns samples of its own, so more results are sent back.
# While a device works on one tile, the result of the tile before is sent. The timeline assumes that
# work takes three times as long as a transfer. Each row is a device or a link between two devices.
# A # device or a link does one thing at a time.


class Picture:
    def __init__(self, timeline: tl.linops.device.Timeline) -> None:
        self.svg = timeline.to_svg()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{data}"
        return f'<img alt="A timeline" style="background: white" src="{source}">'


Picture(B.timeline(compute=3))

# %%
# How many devices?
# -----------------
# Transfers take no extra time while the device works on another tile. Only the first and the last
# transfer are not hidden in this way. Here there are eight tiles. With eight devices, each has one
# tile, so no transfer is hidden.

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
# These numbers were computed, not measured: nothing on this page was run on a GPU. :doc:`Another
# page <../linops-multigpu/simulated_devices>` says what simulated devices can do, and what they
# cannot.
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
