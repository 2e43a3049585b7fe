"""The slice of each named dimension that a rank has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from linops_core import Window
from nameddim import ELLIPSES, NamedDimension

if TYPE_CHECKING:
    from torch.distributed.tensor import Placement

Pieces: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop of the slice of each rank."""


@dataclass(frozen=True)
class Cut:
    """A dimension cut into one share for each index along a dimension of the mesh.

    All shares have the same length, except the last ones, which may be shorter or empty, as in
    ``torch.chunk`` and DTensor.
    """

    mesh_dim: str
    n_shares: int
    length: int
    """Length of the whole dimension."""
    reads: Pieces | None = None
    """The slice of each rank if it is more than its share."""

    def piece(self, index: int) -> slice:
        """Return the slice of the rank at an index.

        Examples
        --------
        >>> [Cut("ranks", 4, 5).piece(index) for index in range(4)]
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None), slice(5, 5, None)]
        """
        if self.reads is not None:
            return slice(*self.reads[index])
        full = -(-self.length // self.n_shares)
        return slice(min(index * full, self.length), min((index + 1) * full, self.length))

    @property
    def pieces(self) -> list[slice]:
        """The slice of each rank."""
        return [self.piece(index) for index in range(self.n_shares)]

    @property
    def lengths(self) -> list[int]:
        """Lengths of the shares."""
        return [piece.stop - piece.start for piece in self.pieces]


@dataclass(frozen=True)
class Sharding:
    """The shares of vectors on the ranks.

    If a vector has a cut dimension, it is sharded along the dimension of the mesh. If it does not,
    it is summed over that dimension of the mesh (an output) or replicated along it (an input).
    """

    mesh: Mapping[str, int]
    """Dimensions of the mesh, with the number of ranks along each."""
    at: Mapping[str, int]
    """The index of this rank along each of them."""
    cuts: Mapping[NamedDimension, Cut]

    @property
    def window(self) -> Window:
        """The share of this rank."""
        return {dim: cut.piece(self.at[cut.mesh_dim]) for dim, cut in self.cuts.items()}

    @property
    def lengths(self) -> dict[NamedDimension, int]:
        """Length of the share of this rank along each cut dimension."""
        return {dim: piece.stop - piece.start for dim, piece in self.window.items()}

    @property
    def is_empty(self) -> bool:
        """Whether this rank has no work."""
        return 0 in self.lengths.values()

    @property
    def leaves_some_idle(self) -> bool:
        """Whether some rank has no work."""
        return any(0 in cut.lengths for cut in self.cuts.values())

    def absent_from(self, names: Iterable[NamedDimension]) -> tuple[str, ...]:
        """Return the dimensions of the mesh along which a vector with these names is not cut."""
        present = self.present_in(names)
        return tuple(name for name in self.used if name not in present)

    def present_in(self, names: Iterable[NamedDimension]) -> tuple[str, ...]:
        """Return the dimensions of the mesh along which a vector with these names is cut."""
        cut = {self.cuts[dim].mesh_dim for dim in names if dim in self.cuts}
        return tuple(name for name in self.mesh if name in cut)

    @property
    def used(self) -> tuple[str, ...]:
        """The dimensions of the mesh along which anything is cut."""
        return self.present_in(self.cuts)

    def of_vector(self, names: Iterable[NamedDimension]) -> Sharding:
        """Return the cuts of a vector with these names."""
        present = {*names}
        return replace(self, cuts={dim: cut for dim, cut in self.cuts.items() if dim in present})

    def axes(self, names: tuple[NamedDimension, ...]) -> dict[int, Cut]:
        """Return the axes of a vector that are cut; those behind a ``...`` count from the end."""
        return {
            position - len(names) * (ELLIPSES in names[:position]): self.cuts[dim]
            for position, dim in enumerate(names)
            if dim in self.cuts
        }

    def local(self, whole: Tensor, names: tuple[NamedDimension, ...], owner: str) -> Tensor:
        """Return the view of a whole vector that is the share of this rank."""
        for axis, cut in self.axes(names).items():
            if not -whole.ndim <= axis < whole.ndim or whole.shape[axis] != cut.length:
                raise ValueError(
                    f"{owner}: axis {axis} of a whole tensor must have length {cut.length}, "
                    f"got shape {tuple(whole.shape)}"
                )
            piece = cut.piece(self.at[cut.mesh_dim])
            whole = whole.narrow(axis, piece.start, piece.stop - piece.start)
        return whole

    def whole_shape(
        self, shape: Iterable[int], names: tuple[NamedDimension, ...]
    ) -> tuple[int, ...]:
        """Return the shape of the whole vector, given the shape of a share."""
        whole = list(shape)
        for axis, cut in self.axes(names).items():
            whole[axis] = cut.length
        return tuple(whole)

    def local_shape(
        self, whole: Iterable[int], names: tuple[NamedDimension, ...]
    ) -> tuple[int, ...]:
        """Return the shape of the share of this rank, given the shape of the whole vector."""
        shape = list(whole)
        for axis, cut in self.axes(names).items():
            piece = cut.piece(self.at[cut.mesh_dim])
            shape[axis] = piece.stop - piece.start
        return tuple(shape)

    def placements(self, names: tuple[NamedDimension, ...]) -> tuple[Placement, ...]:
        """Return the placements of a DTensor: for each dimension of the mesh an axis, or none."""
        # The import takes a second, and changes which classes torch.load accepts.
        from torch.distributed.tensor import Replicate, Shard

        by_name: dict[str, Placement] = {
            cut.mesh_dim: Shard(axis) for axis, cut in self.axes(names).items()
        }
        return tuple(by_name.get(name, Replicate()) for name in self.mesh)

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> Sharding:
        """Return the sharding with other names for dimensions."""
        return replace(self, cuts={names.get(dim, dim): cut for dim, cut in self.cuts.items()})
