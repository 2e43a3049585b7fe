"""An operator of which each rank computes one part, with a sum over ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import cast

import torch
from torch import Tensor

from linops_core import NamedLinop, Side
from linops_split import Part, Tiled, Tiles
from linops_split.siblings import (
    Backward,
    PartCopies,
    RecordedByAutograd,
    Work,
    sum_dtype,
)
from nameddim import NamedDimension, NamedShape

from .._ranks._marks import OrderError
from .._ranks._transport import Transport
from .._shares._sharding import Sharding
from ._distributed import DistributedLinop
from ._rank_copies import RankCopies, trained_weights
from ._steps import DistributedSteps


class DistributedTile(DistributedLinop, Tiled):
    """An operator of which each rank computes one part; results are summed if necessary."""

    _agreed: dict[object, tuple[torch.dtype, tuple[int, ...]]]

    def __init__(
        self,
        tile: NamedLinop,
        shape: NamedShape,
        sharding: Sharding,
        ranks: Transport,
        source: NamedLinop,
        structure: NamedLinop,
        sizes: Mapping[NamedDimension, int],
        gain: float | None = None,
        is_complex_linear: bool = True,
        sums_of_weights: Sequence[tuple[str, ...]] = (),
    ) -> None:
        self._shardings, self.ranks = {"input": sharding, "output": sharding}, ranks
        # In a tuple, so that its weights are not weights of this rank.
        self._weights_of, self._structure = (source,), (structure,)
        self._gain, self._is_complex_linear = gain, is_complex_linear
        self._sums_of_weights = sums_of_weights
        tiles, lengths = Tiles(shape, [Part(tile)], {}), {**sizes, **sharding.lengths}
        super().__init__(tiles, sizes=lengths, whole=source)

    @property
    def name(self) -> str:
        """The given name, else the default name of operators over ranks."""
        return self._name or DistributedLinop.__name__

    @property
    def dims(self) -> frozenset[NamedDimension]:
        """All named dimensions: the same on ranks with and without work."""
        return self._shape.dims | self._structure[0].dims

    @property
    def is_complex_linear(self) -> bool:
        """Whether it is linear over the complex numbers, equal on all ranks."""
        return self._is_complex_linear

    # Calls

    def run(self, x: Tensor) -> Tensor:
        """Return A x for the share of this rank."""
        _, is_followed = self._follows(x)
        try:
            return self._recorded(x) if is_followed else self._written(x)
        except RecordedByAutograd:
            self._refuse_transforms()

    def out_of_place(self, x: Tensor, tiles: Tiles) -> Tensor:
        """Raise an error for second derivatives: torch cannot differentiate a sum over ranks."""
        self._refuse_transforms()

    def execute(self, work: Work) -> Tensor | None:
        """Return the result of this rank, summed with the results of the other ranks."""
        is_backward = isinstance(work, Backward)
        names = self.ishape if is_backward else self.oshape
        sides = [self.oshape, self.ishape] if is_backward else [self.ishape]
        what = "the gradient of the input" if is_backward else "the sum of the output"
        dims = self.sharding.absent_from(names)

        def compute() -> Tensor | None:
            if self.sharding.is_empty:
                return None
            y = super(DistributedTile, self).execute(work)
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
            try:
                y = compute()
            except Exception as error:
                reason = f", which failed with {type(error).__name__}: {error}"
                with suppress(OrderError):  # the other ranks wait for one of these sums
                    if work.collects and dims:
                        zeros = self._zeros(work, key, names)
                        self.ranks.sum(zeros, dims, self.step_owner, what + reason)
                    elif isinstance(work, Backward):
                        cast(RankCopies, work.copies).gradients_at_weights((), reason)
                raise
        else:
            y = self.ranks.attempted(compute, self.step_owner, what)
            self._agreed[key] = self._agreement(key, y, names, what)
        if not work.collects:
            return None
        dtype, _ = self._agreed[key]
        if y is None:
            y = self._zeros(work, key, names)
        elif torch.promote_types(y.dtype, dtype) == dtype:
            y = y.to(dtype)
        return self.ranks.sum(y, dims, self.step_owner, what)

    def _zeros(self, work: Work, key: object, names: tuple[NamedDimension, ...]) -> Tensor:
        """Return the zeros that a rank without work adds."""
        dtype, whole = self._agreed[key]
        return work.tensors[0].new_zeros(self.sharding.local_shape(whole, names), dtype=dtype)

    def _agreement(
        self, key: object, y: Tensor | None, names: tuple[NamedDimension, ...], what: str
    ) -> tuple[torch.dtype, tuple[int, ...]]:
        """Return the common dtype of results and their whole shape, which must be the same."""
        outcome = None if y is None else (y.dtype, self.sharding.whole_shape(y.shape, names))
        gathered = self.ranks.all_gather((key, outcome), self.step_owner, what)
        self.ranks.check_same([one for one, _ in gathered], self.step_owner, what)
        results = [result for _, result in gathered if result is not None]
        if not results:
            return torch.float32, ()
        _, shape = results[0]
        self.ranks.check_same(
            [shape if result is None else result[1] for _, result in gathered],
            self.step_owner,
            f"shape of {what}",
        )
        return reduce(torch.promote_types, [dtype for dtype, _ in results]), shape

    # Weights

    def _is_trained(self) -> bool:
        (source,) = self._weights_of
        return any(tensor.requires_grad for tensor in (*source.parameters(), *source.buffers()))

    def _part_copies(self) -> PartCopies:
        weights = trained_weights(self._weights_of[0])
        dims = self._sums_of_weights or [self.sharding.used] * len(weights)

        def summed(x: Tensor, dims: Sequence[str], what: str) -> Tensor:
            return self.ranks.sum(x, dims, self.step_owner, what)

        return RankCopies(self.tiles, weights, dims, summed, self.signature)

    # Derived operators

    def _lay_out(self, tiles: Tiles, whole: NamedLinop | None) -> None:
        super()._lay_out(tiles, whole)
        self._agreed = {}

    def adjoint(self) -> NamedLinop:
        """Return the adjoint."""
        other = cast(DistributedTile, super().adjoint())
        other._structure = (self._structure[0].H,)
        return other

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions; it shares all tensors."""
        other = cast(DistributedTile, super().renamed(names))
        if other is not self:
            other._structure = (self._structure[0].renamed(names),)
        return other

    def own_normal(self) -> NamedLinop:
        """Return the normal operator; if outputs are not summed, by the normals of the parts."""
        if self.sharding.absent_from(self.oshape):
            normal = NamedLinop.own_normal(self)
            of_input = self.sharding.of_vector(self.ishape)
            names = dict(zip(self.ishape, normal.oshape, strict=True))
            sides: dict[Side, Sharding] = {"input": of_input, "output": of_input.renamed(names)}
            return DistributedSteps(normal, sides, self.ranks)
        # The same names on all ranks, for any parts.
        normals = self.tiles.mapped(lambda linop: linop.N, self.shape.N)
        normal = cast(
            DistributedTile,
            self._with_derivation(self._changed(normals, lambda whole: whole.N), "normal"),
        )
        normal._gain, normal._structure = None, (self._structure[0].N,)
        # With a halo, the output has another name for the slice that is read.
        names = dict(zip(self.ishape, normal.oshape, strict=True))
        cuts = {**self.sharding.cuts, **self.sharding.renamed(names).cuts}
        sharding = replace(self.sharding, cuts=cuts)
        normal._shardings = {"input": sharding, "output": sharding}
        normal._sizes = {**normal._sizes, **sharding.lengths}
        return normal
