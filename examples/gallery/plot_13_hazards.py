"""
Hazards of in-place code
========================

In-place code saves memory, and makes the order of operations matter: a write must not overtake a
read of the same bytes. ``memmap.dataflow`` runs a function once, records what each operation
reads and writes, and says which of them must wait for which.
"""

# %%
# A program
# ---------
# Particles: positions and velocities are columns of one tensor, as such programs have it. A step
# reads and writes the same memory through three views.

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
# What the table says: both energies are computed before anything moves (``WAR``: a write must
# wait for what reads the old value); positions follow velocities (``RAW``: what is read must have
# been written); and the clock, the last column, waits for nobody. All three are columns of one
# tensor, whose bytes lie between each other. To compare where views begin and end would be no use
# here; the answers are exact, byte by byte.
#
# A wave is a group of operations that may run at once. Here is the program as a picture, with
# only those edges that matter; whatever is not connected by a path may change places.


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
# Is it true?
# -----------
# Run the operations in another order that the graph allows, and the result has the same bits.
# ``replayable=True`` keeps what is needed to run them again. Here the order is that of the waves,
# each backwards.

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
# Some operations read what they are writing themselves. What comes out then depends on the order
# in which elements are processed, on the size, the device and the number of threads. PyTorch
# refuses the clear cases; it cannot see this one, whose views have steps.

x = torch.arange(8.0)
graph = analyze_dependencies(trace(lambda x: x[2::2].copy_(x[:-2:2]), x))
for hazard in graph.self_hazards:
    print(hazard)

# %%
# The remedy is a copy of what is read.

graph = analyze_dependencies(trace(lambda x: x[2::2].copy_(x[:-2:2].clone()), x))
assert not graph.self_hazards
print(graph)

# sphinx_gallery_thumbnail_number = 1
