"""
The memory map of a model
=========================

The memory of a model is not the sum of its tensors if tensors share memory: tied weights, views of
one matrix, slices of a table. ``memmap`` draws where each tensor lies. It copies and moves models
so that tensors that shared memory still do.
"""

# %%
# A small language model
# ----------------------
# The embedding is also the last layer, as in many language models. Queries, keys and values are
# views of one matrix, so that one product computes all three. The positions are the first rows of a
# table that is four times as long.

import base64
import copy
import tempfile
from pathlib import Path

import torch
from matplotlib import pyplot
from torch import nn

from memmap import MemoryReport, ModuleMemoryMap, memory_aware_deepcopy, same_storage


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = map(nn.Parameter, torch.randn(3 * width, width).chunk(3))


class Model(nn.Module):
    def __init__(self, words: int, width: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = Attention(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.positions = nn.Buffer(torch.randn(4 * length, width)[:length])


model = Model(words=500, width=64, length=64)
report = MemoryReport(model)
print(report)

# %%
# Five tensors have six names and lie in three storages. The first storage has one tensor with two
# names. Only a quarter of the second is used, and the rest is wasted. Three parameters share the
# third. The same as a picture:


class Picture:
    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="Map of the storages" src="data:image/svg+xml;base64,{data}">'


Picture(report.to_svg())

# %%
# Copies
# ------
# ``copy.deepcopy`` copies the parameters one by one. The values are right, but there is no common
# matrix any more, so queries, keys and values need three products. The whole table is copied,
# although only a quarter is used.

by_torch = copy.deepcopy(model)
print(same_storage(model.attention.q, model.attention.v))
print(same_storage(by_torch.attention.q, by_torch.attention.v))
Picture(MemoryReport(by_torch).to_svg())

# %%
# ``memory_aware_deepcopy`` copies storage by storage. It makes one buffer for each, from the first
# byte that a tensor touches to the last. In it, every tensor is the same view as before.

twin = memory_aware_deepcopy(model)
print(same_storage(twin.attention.q, twin.attention.v))
print(same_storage(twin.attention.q, model.attention.q))
Picture(MemoryReport(twin).to_svg())

# %%
# ``ModuleMemoryMap.copy_to`` puts a copy on a device. The device gets each byte that a tensor
# touches once, and the model stays as it is. (Here the device is ``meta``, which has no memory, but
# its tensors say where they would lie. Use ``"cuda:0"`` in the same way.)

memory_map = ModuleMemoryMap()
memory_map.register_module(model, device="meta")
there = memory_map.copy_to(model, "meta")
ways = {
    "as it is": report.totals,
    "copy.deepcopy": MemoryReport(by_torch).totals,
    "memory_aware_deepcopy": MemoryReport(twin).totals,
    "on a device": MemoryReport(there).totals,
}

figure, axes = pyplot.subplots(figsize=(7, 2.4), layout="constrained")
touched = [numbers.touched / 1024 for numbers in ways.values()]
axes.barh([*ways], touched, label="touched")
axes.barh([*ways], [n.wasted / 1024 for n in ways.values()], left=touched, label="wasted")
axes.invert_yaxis()
axes.set_xlabel("KiB")
axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))

assert ways["memory_aware_deepcopy"].wasted == ways["on a device"].wasted == 0

# %%
# Checkpoints
# -----------
# ``MemoryReport.from_file`` reports on a file without executing anything from it. The command
# ``memmap report model.pt`` does the same. ``torch.save`` writes whole storages, so the file has
# the unused rows, too.

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.pt")
    torch.save(model.state_dict(), path)
    print(MemoryReport.from_file(path))

# sphinx_gallery_thumbnail_number = 1
