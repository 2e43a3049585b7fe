"""An operator whose parts are on the ranks of a mesh."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NoReturn, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from linops_core import NamedLinop, Side, SplitError, Totals, Window, writing_is_safe
from linops_split import Part, Tiled, Tiles
from linops_split.execution import (
    Backward,
    PartCopies,
    RecordedByAutograd,
    Work,
    sum_dtype,
)
from nameddim import NamedDimension, NamedShape

from ._ranks import Ranks
from ._sharding import Sharding
from ._weights import RankCopies, trained_weights

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor, Placement


class DistributedLinop(Tiled):
    """An operator of which each rank has one part; made by :func:`distribute_linop`.

    It takes and returns the tensors of its rank: the share of a vector along the dimensions that
    are cut, and the whole along the others. A result to which several ranks add is summed over
    them, and is then the same on all of them. Given a DTensor it returns one.

    ``A.H``, ``A.N`` and gradients, to the input and to weights, work in the same way. All ranks
    must call the same operators in the same order.
    """

    _agreed: dict[object, tuple[torch.dtype, tuple[int, ...]]]
    _derived = frozenset[str]()

    def __init__(
        self,
        tile: NamedLinop,
        shape: NamedShape,
        sharding: Sharding,
        ranks: Ranks,
        source: NamedLinop,
        sizes: Mapping[NamedDimension, int],
    ) -> None:
        self._sharding, self.ranks = sharding, ranks
        # In a tuple, or its weights would be this rank's as well.
        self._weights_of = (source,)
        super().__init__(Tiles(shape, [Part(tile)], {}), sizes={**sizes, **sharding.lengths})

    @property
    def sharding(self) -> Sharding:
        """What the ranks have of its vectors."""
        return self._sharding

    @property
    def window(self) -> Window:
        """The share of this rank: its slice of each dimension that is cut."""
        return self.sharding.window

    def extra_repr(self) -> str:
        """Return what ``repr`` says: the rank and its share."""
        pieces = ", ".join(f"{dim} {p.start}:{p.stop}" for dim, p in self.window.items())
        return f"rank {self.ranks.rank} of {self.ranks.size(self.ranks.names)}: {pieces}"

    @property
    def step_owner(self) -> str:
        """What is said of it where ranks meet: an adjoint may have the names of the operator."""
        return ", ".join([self.signature, *sorted(self._derived)])

    # Whole vectors, and DTensors

    def local_input(self, x: Tensor) -> Tensor:
        """Return the view of a whole input that is the share of this rank.

        Raises
        ------
        ValueError
            If a dimension that is cut has another length.
        """
        return self.sharding.local(x, self.ishape, f"{self.signature}: local_input")

    def local_output(self, y: Tensor) -> Tensor:
        """Return the view of a whole output that is the share of this rank; see local_input."""
        return self.sharding.local(y, self.oshape, f"{self.signature}: local_output")

    def full_output(self, y: Tensor) -> Tensor:
        """Return the whole output, on all ranks, given the share of each; all ranks call it."""
        owner = f"{self.signature}: full_output"
        for axis, cut in self.sharding.axes(self.oshape).items():
            pieces = [cut.piece(index) for index in range(cut.n_shares)]
            lengths = [piece.stop - piece.start for piece in pieces]
            own = lengths[self.sharding.at[cut.mesh_dim]]
            if not -y.ndim <= axis < y.ndim or y.shape[axis] != own:
                raise ValueError(
                    f"{owner}: axis {axis} of the share of rank {self.ranks.rank} must have "
                    f"length {own}, got shape {tuple(y.shape)}"
                )
            y = self.ranks.joined(y, cut.mesh_dim, lengths, axis, self.signature, "full_output")
        return y

    @property
    def input_placements(self) -> tuple[Placement, ...]:
        """How an input is spread over the mesh, as a DTensor says it."""
        return self.sharding.placements(self.ishape)

    @property
    def output_placements(self) -> tuple[Placement, ...]:
        """How an output is spread over the mesh, as a DTensor says it."""
        return self.sharding.placements(self.oshape)

    def forward(self, x: Tensor) -> Tensor:
        """Return A x, of the share of this rank or of a DTensor."""
        module = sys.modules.get("torch.distributed.tensor")  # or there is no DTensor
        if module is not None and isinstance(x, module.DTensor):
            return self._of_dtensor(x)
        return super().forward(x)

    def _of_dtensor(self, x: DTensor) -> Tensor:
        from torch.distributed.tensor import DTensor

        wanted, given = _of_ndim(self.input_placements, x.ndim), _of_ndim(x.placements, x.ndim)
        mesh = self.ranks.mesh
        if mesh is None or x.device_mesh != mesh or given != wanted:
            raise ValueError(
                f"{self.signature}: a DTensor must be on the mesh {mesh} with "
                f"placements {wanted}, got {x.device_mesh} with {given}; see redistribute"
            )
        y = self(x.to_local(grad_placements=wanted))
        shape = self.sharding.whole_shape(y.shape, self.oshape)
        strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return DTensor.from_local(
            y,
            mesh,
            _of_ndim(self.output_placements, y.ndim),
            run_check=False,
            shape=torch.Size(shape),
            stride=tuple(strides),
        )

    # Calls

    def run(self, x: Tensor) -> Tensor:
        """Return A x for the share of this rank."""
        is_plain = type(x) in (Tensor, torch.nn.Parameter)
        if not is_plain or not writing_is_safe() or forward_ad._current_level >= 0:
            self._refuse_transforms()
        records = torch.is_grad_enabled() and (x.requires_grad or self._is_trained())
        shape = self.sharding.whole_shape(x.shape, self.ishape)
        call = str(x.dtype), shape, records and x.requires_grad, records
        if call not in self._calls:
            self.ranks.agree(call, self.step_owner, "dtype, shape and gradient of the input")
            self._calls.add(call)
        try:
            return self._recorded(x) if records else self._written(x)
        except RecordedByAutograd:
            self._refuse_transforms()

    def _refuse_transforms(self) -> NoReturn:
        raise NotImplementedError(
            f"{self.signature}: over ranks it must be called with a plain tensor, for values and "
            "first derivatives, got a transform of torch.func, a compiler, autocast, a second "
            "derivative or random numbers"
        )

    def out_of_place(self, x: Tensor, tiles: Tiles) -> Tensor:
        """Refuse second derivatives: a sum over ranks is no function that torch knows."""
        self._refuse_transforms()

    def execute(self, work: Work) -> Tensor | None:
        """Return what this rank computes, summed with what the others add to the same elements."""
        is_backward = isinstance(work, Backward)
        names = self.ishape if is_backward else self.oshape
        sides = [self.oshape, self.ishape] if is_backward else [self.ishape]
        what = "the gradient of the input" if is_backward else "the sum of the output"
        dims = self.sharding.absent_from(names)

        def compute() -> Tensor | None:
            if self.sharding.is_empty:
                return None
            y = super(DistributedLinop, self).execute(work)
            return y.to(sum_dtype(y.dtype)) if dims and y is not None else y

        key = (
            is_backward,
            work.collects,
            *[
                (str(x.dtype), self.sharding.whole_shape(x.shape, side))
                for x, side in zip(work.tensors, sides, strict=True)
            ],
        )
        if key in self._agreed:
            y = compute()
        else:
            y = self.ranks.attempted(compute, self.step_owner, what)
            self._agreed[key] = self._agreement(key, y, names, what)
        if not work.collects:
            return None
        if y is None:
            dtype, whole = self._agreed[key]
            y = work.tensors[0].new_zeros(self.sharding.local_shape(whole, names), dtype=dtype)
        return self.ranks.sum(y, dims, self.step_owner, what)

    def _agreement(
        self, key: object, y: Tensor | None, names: tuple[NamedDimension, ...], what: str
    ) -> tuple[torch.dtype, tuple[int, ...]]:
        """Return the dtype and the whole shape of a result, which must be the same on all ranks."""
        own = None if y is None else (y.dtype, self.sharding.whole_shape(y.shape, names))
        told = self.ranks.told((key, own), self.step_owner, what)
        self.ranks.check_same([one for one, _ in told], self.step_owner, what)
        found = next((result for _, result in told if result is not None), None)
        self.ranks.check_same(
            [found if result is None else result for _, result in told],
            self.step_owner,
            f"dtype and shape of {what}",
        )
        return found or (torch.float32, ())

    def totals(self, side: Side) -> Totals:
        """Return how numbers of the shares of a vector are added up over the ranks."""
        names = self.ishape if side == "input" else self.oshape
        dims = self.sharding.present_in(names)
        if self.ranks.size(dims) == 1:
            return Totals()

        def add(numbers: Tensor) -> Tensor:
            if numbers.requires_grad:
                raise NotImplementedError(
                    f"{self.signature}: gradients must not flow through the steps of a solver over "
                    "ranks; give implicit=True, or use torch.no_grad()"
                )
            return self.ranks.sum(numbers, dims, self.step_owner, "inner products")

        return Totals(add)

    # Weights

    def _is_trained(self) -> bool:
        return any(tensor.requires_grad for tensor in self._weights_of[0].parameters()) or any(
            tensor.requires_grad for tensor in self._weights_of[0].buffers()
        )

    def _part_copies(self) -> PartCopies:
        weights = trained_weights(self._weights_of[0])
        dims = [self.sharding.used] * len(weights)

        def summed(x: Tensor, dims: Sequence[str], what: str) -> Tensor:
            return self.ranks.sum(x, dims, self.step_owner, what)

        return RankCopies(self.tiles, weights, dims, summed, self.signature)

    # Derived operators

    def _lay_out(self, tiles: Tiles) -> None:
        super()._lay_out(tiles)
        self._agreed, self._calls = {}, set[object]()

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        other = cast(DistributedLinop, super().renamed(names))
        if other is not self:
            other._sharding = self.sharding.renamed(names)
        return other

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, part by part."""
        return self._marked(super().adjoint(), "adjoint")

    def conj(self) -> NamedLinop:
        """Return the conjugate, part by part."""
        return self._marked(super().conj(), "conjugate")

    def _marked(self, other: NamedLinop, how: str) -> NamedLinop:
        if isinstance(other, DistributedLinop):
            other._derived = self._derived ^ {how}
        return other

    def own_normal(self) -> NamedLinop:
        """Return the normal operator: of the normals of the parts, if outputs are not summed."""
        if self.sharding.absent_from(self.oshape):
            return NamedLinop.own_normal(self)
        # By the same names on all ranks, whatever their parts are.
        normals = self.tiles.mapped(lambda linop: linop.N, self.shape.N)
        return self._marked(self.with_tiles(normals), "normal")

    def without_fftshift(self, dims: object) -> NamedLinop | None:
        """Return None: what one rank can leave out another may not."""
        return None

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced."""
        return "the operator is distributed over ranks; cut it before, with batch_specs"

    def _tiles_at(self, windows: Sequence[Window]) -> NoReturn:
        raise SplitError(f"{self.signature}: it cannot be split: {self.why_opaque('')}")


def _of_ndim(placements: Sequence[Placement], ndim: int) -> tuple[Placement, ...]:
    """Return placements in which axes count from the first."""
    from torch.distributed.tensor import Shard

    return tuple(Shard(p.dim % ndim) if isinstance(p, Shard) else p for p in placements)
