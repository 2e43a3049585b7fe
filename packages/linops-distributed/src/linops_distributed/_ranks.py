"""The ranks of a mesh and what they send each other: sums, comparisons, what is gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """What a rank has sent in one step: counted by what is asked of torch.distributed."""

    step: str
    kind: str
    mesh_dims: tuple[str, ...]
    n_ranks: int
    n_bytes: int
    """Of the tensor that is summed or gathered, at this rank."""


@dataclass(eq=False)
class Ranks:
    """A mesh, from the view of one rank.

    Every collective is within a step that has a name. An error of the transport says it, with the
    operator and the rank: a rank that does not come is an error after the timeout of the group.
    """

    mesh: DeviceMesh
    rank: int
    """The number of this rank, of all."""
    ordered: bool = False
    log: list[Sent] | None = None
    """Where to write down what is sent, if anybody wants to know."""
    _groups: dict[tuple[str, ...], dist.ProcessGroup] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions of the mesh."""
        return tuple(self.mesh.mesh_dim_names or ())

    def size(self, dims: Sequence[str]) -> int:
        """Return how many ranks differ along these dimensions."""
        sizes = dict(zip(self.names, self.mesh.shape, strict=True))
        found = 1
        for dim in dims:
            found *= sizes[dim]
        return found

    def prepare(self, dims: Sequence[str]) -> None:
        """Make the group of the ranks that differ along these dimensions; all ranks call it."""
        dims = tuple(dims)
        if dims and dims not in self._groups:
            if len(dims) == 1:
                group = self.mesh.get_group(dims[0])
            else:
                part = self.mesh if dims == self.names else self.mesh[dims]
                group = part._flatten().get_group()
            self._groups[dims] = group

    def __deepcopy__(self, memo: dict[int, object]) -> Ranks:
        return self  # a group of processes is there once

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "DistributedLinop: the connections between ranks must stay in their process, got an "
            "attempt to pickle them; pickle the operator that was distributed"
        )

    @contextmanager
    def step(self, owner: str, what: str, dims: Sequence[str]) -> Iterator[None]:
        """Say the operator, the rank and the step in an error of the transport."""
        try:
            yield
        except (RuntimeError, EOFError, ValueError) as error:
            raise RuntimeError(
                f"{owner}: {what} must be reached by all {self.size(dims)} ranks along "
                f"({', '.join(dims)}) of the mesh before the timeout of their group, got on rank "
                f"{self.rank}: {error}; another rank has failed, waits elsewhere or has ended"
            ) from error

    def sum(self, x: Tensor, dims: Sequence[str], owner: str, what: str) -> Tensor:
        """Return the sum over the ranks along some dimensions of the mesh, in the memory of x."""
        if self.size(dims) == 1 or not x.numel():
            return x
        x = x.resolve_conj().resolve_neg().contiguous()
        flat = (torch.view_as_real(x) if x.is_complex() else x).view(-1)
        group, n_ranks = self._groups[tuple(dims)], self.size(dims)
        self._note(what, "ordered sum" if self.ordered else "sum", dims, flat)
        with self.step(owner, what, dims):
            if self.ordered:
                _ordered_sum(flat, n_ranks, group)
            else:
                dist.all_reduce(flat, group=group)
        return x

    def joined(
        self, x: Tensor, dim: str, lengths: Sequence[int], axis: int, owner: str, what: str
    ) -> Tensor:
        """Return the parts of all ranks along one dimension of the mesh, one after the other."""
        if len(lengths) == 1:
            return x
        rows = x.resolve_conj().resolve_neg().movedim(axis, 0)
        padded = rows.new_zeros((max(lengths), *rows.shape[1:]))
        padded[: len(rows)] = rows
        found = padded.new_empty((len(lengths) * len(padded), *rows.shape[1:]))
        pair = [torch.view_as_real(t) if t.is_complex() else t for t in (found, padded)]
        self._note(what, "gather", (dim,), pair[1])
        with self.step(owner, what, (dim,)):
            dist.all_gather_single(pair[0], pair[1], group=self._groups[(dim,)])
        parts = found.split(len(padded))
        whole = torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])
        return whole.movedim(0, axis)

    def told(self, value: T, owner: str, what: str) -> list[T]:
        """Return what every rank of the mesh says, in their order."""
        found: list[T | None] = [None] * self.size(self.names)
        if len(found) == 1:
            return [value]
        with self.step(owner, what, self.names):
            dist.all_gather_object(found, value, group=self._groups[self.names])
        return found  # type: ignore[return-value]  # all are there now

    def members(self) -> list[int]:
        """Return the numbers of all ranks of the mesh, in the order of :meth:`told`."""
        numbers: list[int] = self.mesh.mesh.flatten().tolist()
        return numbers

    def coordinates(self) -> list[dict[str, int]]:
        """Return where in the mesh each of them is."""
        places = product(*map(range, self.mesh.shape))
        return [dict(zip(self.names, place, strict=True)) for place in places]

    def agree(self, value: object, owner: str, what: str) -> None:
        """Refuse, on all ranks with the same words, what is not the same on all."""
        self.check_same(self.told(value, owner, what), owner, what)

    def check_same(self, values: Sequence[object], owner: str, what: str) -> None:
        """Refuse what was told if it is not the same everywhere."""
        by_text: dict[str, list[int]] = {}
        for rank, text in zip(self.members(), map(str, values), strict=True):
            by_text.setdefault(text, []).append(rank)
        if len(by_text) > 1:
            found = "; ".join(f"{text} on rank {_listed(ranks)}" for text, ranks in by_text.items())
            raise ValueError(f"{owner}: {what} must be the same on all ranks, got {found}")

    def attempted(self, action: Callable[[], T], owner: str, what: str) -> T:
        """Return what an action returns; where it fails on one rank, raise an error on all."""
        result: T | None = None
        failure: Exception | None = None
        try:
            result = action()
        except Exception as error:
            failure = error
        text = None if failure is None else f"{type(failure).__name__}: {failure}"
        told = self.told(text, owner, what)
        if failure is not None:
            raise failure
        failed = {rank: one for rank, one in zip(self.members(), told, strict=True) if one}
        if failed:
            rank, text = next(iter(failed.items()))
            raise RuntimeError(
                f"{owner}: {what} must succeed on all ranks, got on rank {rank}: {text}"
            )
        return result  # type: ignore[return-value]  # it is there

    def _note(self, what: str, kind: str, dims: Sequence[str], x: Tensor) -> None:
        if self.log is not None:
            n_bytes = x.numel() * x.element_size()
            self.log.append(Sent(what, kind, tuple(dims), self.size(dims), n_bytes))


def _ordered_sum(flat: Tensor, n_ranks: int, group: dist.ProcessGroup) -> None:
    """Sum in the order of the ranks: each rank sums its part of the tensor, and all get it."""
    size = -(-len(flat) // n_ranks)
    mine = flat.new_zeros(n_ranks * size)
    mine[: len(flat)] = flat
    others = torch.empty_like(mine)
    dist.all_to_all_single(others, mine, group=group)
    total, *rest = others.split(size)
    for part in rest:
        total += part
    dist.all_gather_single(mine, total.contiguous(), group=group)
    flat.copy_(mine[: len(flat)])


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
