"""
Hazards of in-place code
========================

In-place code saves memory, but the order of its operations matters: a write must not come before an
earlier read of the same bytes. ``memmap.dataflow`` runs a function once, records what each
operation reads and writes, and says which operations must wait for which.
"""

# %%
# A program
# ---------
# The program moves particles. Positions, velocities and the time are columns of one tensor. A step
# reads and writes this tensor through three views.

import torch
from matplotlib import pyplot

from memmap.dataflow import DependencyGraph, analyze_dependencies, trace


def step(state: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
    position, velocity = state[:, :3], state[:, 3:6]
    kinetic = velocity.square().sum() / 2
    potential = position.square().sum() / 2
    velocity.add_(force, alpha=0.01)
    position.add_(velocity, alpha=0.01)
    state[:, 6].add_(0.01)  # the time of each particle
    return kinetic + potential


operations = trace(step, torch.rand(100, 7), torch.rand(100, 3))
graph = analyze_dependencies(operations)
print(graph)

# %%
# The table says:
#
# - Both energies are computed before anything moves. ``WAR`` (write after read): a write must wait
#   for the reads of the old value.
# - Positions are updated after velocities. ``RAW`` (read after write): a read must wait for the
#   write.
# - The time, the last column, waits for nothing.
#
# The bytes of the columns are interleaved, so comparing where views begin and end would not be
# enough. The answers are exact, byte by byte.
#
# A wave is a group of operations that may run at the same time. The picture leaves out edges that
# follow from others. Two operations without a path between them may change places.


def draw(graph: DependencyGraph) -> None:
    places = {}
    for column, wave in enumerate(graph.waves()):
        for row, operation in enumerate(wave):
            places[operation] = (column, (len(wave) - 1) / 2 - row)
    _, axes = pyplot.subplots(figsize=(8, 3), layout="constrained")
    colours = {"RAW": "tab:blue", "WAR": "tab:orange", "WAW": "tab:green"}
    for edge in graph.transitive_reduction():
        start, end = (places[graph.operations[k]] for k in (edge.earlier_index, edge.later_index))
        arrow = {"arrowstyle": "->", "color": colours[edge.kind.name], "shrinkA": 24, "shrinkB": 24}
        axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
    for operation, place in places.items():
        axes.text(*place, operation.name, ha="center", va="center", bbox={"facecolor": "white"})
    for name, colour in colours.items():
        axes.plot([], [], color=colour, label=name)
    axes.set(xlim=(-0.5, len(graph.waves()) - 0.5), ylim=(-1.8, 1.8), xlabel="wave", yticks=[])
    axes.set_xticks(range(len(graph.waves())), [str(1 + k) for k in range(len(graph.waves()))])
    axes.legend(loc="lower right")


draw(graph)

# %%
# Another order
# -------------
# If the operations run in another order that the graph allows, the result has the same bits.
# ``replayable=True`` keeps the tensors, so that the operations can run again. Here the waves run in
# order, and the operations of each wave in reverse order.

state, force = torch.rand(100, 7), torch.rand(100, 3)
expected = state.clone()
step(expected, force)

started = state.clone()
replayable = trace(step, started, force, replayable=True)
started.copy_(state)
for wave in analyze_dependencies(replayable).waves():
    for operation in reversed(wave):
        operation.execute()
assert torch.equal(started, expected)

# %%
# A hazard within one operation
# -----------------------------
# Some operations write bytes that they also read. The result then depends on the order in which
# elements are processed, and so on the size, the device and the number of threads. PyTorch refuses
# the simple cases. It does not detect this case, because the views have steps.

x = torch.arange(8.0)
graph = analyze_dependencies(trace(lambda x: x[2::2].copy_(x[:-2:2]), x))
for hazard in graph.self_hazards:
    print(hazard)

# %%
# To fix it, copy the view that is read.

graph = analyze_dependencies(trace(lambda x: x[2::2].copy_(x[:-2:2].clone()), x))
assert not graph.self_hazards
print(graph)

# sphinx_gallery_thumbnail_number = 1
