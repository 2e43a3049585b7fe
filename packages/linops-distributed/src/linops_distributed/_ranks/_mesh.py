"""The ranks of a mesh: which there are, and which of them this process is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations, product
from math import prod
from typing import Self

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh


@dataclass(eq=False)
class RankMesh:
    """The ranks of a mesh, seen from one of them."""

    sizes: Mapping[str, int]
    """Dimensions of the mesh, with the number of ranks along each."""
    at: Mapping[str, int]
    """The index of this rank along each of them."""
    numbers: Sequence[int]
    """The numbers of all ranks of the mesh, in its order."""
    device_mesh: DeviceMesh | None = None
    """None while a mesh is planned."""
    groups: dict[tuple[str, ...], dist.ProcessGroup] = field(default_factory=dict)
    """The process groups along each choice of dimensions, in the order of the mesh."""

    @classmethod
    def of(cls, mesh: DeviceMesh) -> Self:
        """Return the ranks of a mesh with names that contains this process."""
        names = mesh.mesh_dim_names or ()
        sizes = dict(zip(names, mesh.shape, strict=True))
        at = dict(zip(names, mesh.get_coordinate() or (), strict=True))
        # All are made now, by all ranks in one order; torch keeps those of a mesh.
        choices = [dims for n in range(len(names)) for dims in combinations(names, n + 1)]
        parts = {dims: mesh if dims == names else mesh[dims] for dims in choices}
        groups = {
            dims: (part if len(dims) == 1 else part._flatten()).get_group()
            for dims, part in parts.items()
        }
        return cls(sizes, at, mesh.mesh.flatten().tolist(), mesh, groups)

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions of the mesh."""
        return tuple(self.sizes)

    @property
    def rank(self) -> int:
        """The global number of this rank."""
        return self.numbers[self.index(self.names)]

    def index(self, dims: Sequence[str]) -> int:
        """Return the index of this rank among those along these dimensions."""
        return reduce(lambda index, dim: index * self.sizes[dim] + self.at[dim], dims, 0)

    def size(self, dims: Sequence[str]) -> int:
        """Return the number of ranks along these dimensions."""
        return prod(self.sizes[dim] for dim in dims)

    def coordinates(self) -> list[dict[str, int]]:
        """Return the coordinates of each rank in the mesh."""
        points = product(*map(range, self.sizes.values()))
        return [dict(zip(self.names, point, strict=True)) for point in points]
