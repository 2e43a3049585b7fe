"""What ranks send each other: sums, gathers, exchanges, and objects that they compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from linops_core.siblings import at_least_single, real_parts

from .._private_torch import outside_of_modes
from ._marks import Meeting, Order, OrderError, differing, mark_of
from ._mesh import RankMesh

T = TypeVar("T")

# Above this number of bytes, an extra message of a few numbers is negligible. Below it, copying the
# message is faster than sending an extra one.
MARK_RIDES = 2**20


@dataclass(frozen=True)
class Sent:
    """One call of torch.distributed at a rank, with its number of bytes."""

    step: str
    kind: str
    mesh_dims: tuple[str, ...]
    n_ranks: int
    n_bytes: int
    """Bytes of the summed or gathered tensor of this rank; for an exchange, bytes that leave it."""


@dataclass(eq=False)
class Transport:
    """The communication of one rank with the others of its mesh.

    Every collective belongs to a named step. Errors of the transport name the step, the operator
    and the rank. A rank that does not arrive is an error after the timeout of the group.
    """

    mesh: RankMesh
    ordered: bool = False
    is_dry: bool = False
    """Whether communication is only recorded and not done."""
    other_objects: Sequence[Sequence[object]] = ()
    """While a mesh is planned: objects of other ranks."""
    own_objects: list[object] = field(default_factory=list)
    """While a mesh is planned: objects of this rank."""
    log: list[Sent] | None = None
    """A list to record communication in, or None."""
    order: Order = field(default_factory=Order)

    def __deepcopy__(self, memo: dict[int, object]) -> Transport:
        return self  # a process group cannot be copied

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "DistributedLinop: the connections between ranks must stay in their process, got an "
            "attempt to pickle them; pickle the operator that was distributed"
        )

    @contextmanager
    def step(self, owner: str, what: str, dims: Sequence[str]) -> Iterator[None]:
        """Add the operator, the rank and the step to errors of the transport."""
        try:
            yield
        except OrderError:
            raise
        except (RuntimeError, EOFError, ValueError) as error:
            raise RuntimeError(
                f"{owner}: {what} must be reached by all {self.mesh.size(dims)} ranks along "
                f"({', '.join(dims)}) of the mesh before the timeout of their group, got an error "
                f"on rank {self.mesh.rank}: {error}; another rank has failed, waits elsewhere "
                "or has ended"
            ) from error

    def sum(self, x: Tensor, dims: Sequence[str], owner: str, what: str) -> Tensor:
        """Return the sum over the ranks along some dimensions of the mesh, in the memory of x.

        Half precision is added in single precision, as on one device and in tiles. Such a sum is
        ordered, so that what is sent remains in half precision.
        """
        if self.mesh.size(dims) == 1 or not x.numel():
            return x
        x = x.resolve_conj().resolve_neg().contiguous()
        flat = real_parts(x).view(-1)
        ordered = self.ordered or at_least_single(flat.dtype) != flat.dtype
        kind = "ordered sum" if ordered else "sum"
        rides = flat.nbytes <= MARK_RIDES

        def send(group: dist.ProcessGroup) -> None:
            mark = mark_of(step, flat.dtype, flat.device)
            marked = torch.cat([flat, mark]) if rides else flat
            _add(marked, group, ordered)
            if rides:
                data, marks = marked.split([len(flat), len(mark)])
                self.order.check_marks(marks, mark, group, step, owner)
                flat.copy_(data)

        step = f"{self.order.step_name(owner, what)}: {kind} of {len(flat)} numbers of {flat.dtype}"
        if rides and self.order.met is None:
            self.order.met = Meeting(tuple(dims), len(flat), flat.dtype, flat.device, ordered)
        self.collective(send, flat, kind, dims, owner, what, step if not rides else None)
        return x

    def joined(
        self, x: Tensor, dim: str, lengths: Sequence[int], axis: int, owner: str, what: str
    ) -> Tensor:
        """Return the concatenated parts of all ranks along one dimension of the mesh."""
        if len(lengths) == 1:
            return x
        rows = x.resolve_conj().resolve_neg().movedim(axis, 0)
        padded = rows.new_zeros((max(lengths), *rows.shape[1:]))
        padded[: len(rows)] = rows
        gathered = padded.new_empty((len(lengths) * len(padded), *rows.shape[1:]))

        def send(group: dist.ProcessGroup) -> None:
            dist.all_gather_single(real_parts(gathered), real_parts(padded), group=group)

        name = self.order.step_name(owner, what)
        step = f"{name}: gather of {tuple(padded.shape)} of {padded.dtype}"
        self.collective(send, padded, "gather", (dim,), owner, what, step)
        parts = gathered.split(len(padded))
        whole = torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])
        return whole.movedim(0, axis)

    def exchanged(
        self, parts: Sequence[Tensor], n_received: Sequence[int], dim: str, owner: str, what: str
    ) -> Tensor:
        """Return what the ranks along a dimension of the mesh send to this one, one after another.

        Parameters
        ----------
        parts : sequence of Tensor
            The tensor for each rank, also for this one.
        n_received : sequence of int
            The number of elements that each rank sends.
        """
        n_sent = [part.numel() for part in parts]
        packed = parts[0].new_empty(sum(n_sent))
        for part, target in zip(parts, packed.split(n_sent), strict=True):
            target.view(part.shape).copy_(part)  # resolves conjugates
        received = packed.new_empty(sum(n_received))
        incoming, outgoing = real_parts(received), real_parts(packed)

        def send(group: dist.ProcessGroup) -> None:
            dist.all_to_all_single(incoming, outgoing, [*n_received], n_sent, group=group)

        leaving = outgoing[: len(packed) - n_sent[self.mesh.at[dim]]]  # as many as are sent
        step = f"{self.order.step_name(owner, what)}: exchange of {packed.dtype}"
        self.collective(send, leaving, "exchange", (dim,), owner, what, step)
        return received

    def collective(
        self,
        send: Callable[[dist.ProcessGroup], object],
        sent: Tensor,
        kind: str,
        dims: Sequence[str],
        owner: str,
        what: str,
        step: str | None,
    ) -> None:
        """Call a collective and record it; all communication of operators goes through here.

        Parameters
        ----------
        send : function of a process group
            Calls torch.distributed. It is not called while a mesh is planned.
        sent : Tensor
            The tensor whose bytes are recorded.
        kind, dims
            The kind of the collective, and the dimensions of the mesh.
        owner, what : str
            The operator and the step, for errors.
        step : str or None
            Name of the step, which is compared between ranks before; None if ``send`` compares it.
        """
        dims = tuple(dims)
        if self.log is not None:
            self.log.append(Sent(what, kind, dims, self.mesh.size(dims), sent.nbytes))
        if self.is_dry:
            return
        group = self.mesh.groups[dims]
        with self.step(owner, what, dims):
            if step is not None:
                meeting = Meeting(dims, 0, torch.float32, sent.device)
                self.order.met = self.order.met or meeting
                self._meet(meeting, step, owner)
            send(group)

    def interrupt(self, meeting: Meeting, owner: str, what: str, reason: str) -> None:
        """Send another mark in place of the message of the others.

        It is an error on all ranks, unless all do the same.
        """
        if not self.is_dry:
            with self.step(owner, what, meeting.dims):
                self._meet(meeting, self.order.step_name(owner, what), owner, reason)

    def _meet(self, meeting: Meeting, step: str, owner: str, reason: str = "") -> None:
        """Compare marks, with zeros in place of the numbers that are sent with them."""
        group = self.mesh.groups[meeting.dims]
        mark = mark_of(step, meeting.dtype, meeting.device)
        marks = torch.cat([mark.new_zeros(meeting.n_numbers), mark])
        _add(marks, group, meeting.is_ordered)
        self.order.check_marks(marks[meeting.n_numbers :], mark, group, step + reason, owner)

    def all_gather(self, value: T, owner: str, what: str) -> list[T]:
        """Gather an object of every rank, in order."""
        gathered: list[tuple[str, T] | None] = [None] * len(self.mesh.numbers)
        if self.mesh.device_mesh is None:
            at = len(self.own_objects)
            self.own_objects.append(value)
            others = [cast(T, objects[at]) for objects in self.other_objects] or [value]
            others += others[:1] * (len(gathered) - len(others))
            others[self.mesh.index(self.mesh.names)] = value
            return others
        if len(gathered) == 1:
            return [value]
        step = self.order.step_name(owner, what)
        # Ranks compare values also while operators run without data.
        with self.step(owner, what, self.mesh.names), outside_of_modes():
            dist.all_gather_object(gathered, (step, value), group=self.mesh.groups[self.mesh.names])
        # The group of several dimensions has the ranks in ascending order, whatever the mesh has.
        by_rank = dict(zip(sorted(self.mesh.numbers), gathered, strict=True))
        pairs = [pair for number in self.mesh.numbers if (pair := by_rank[number]) is not None]
        if text := differing(self.mesh.numbers, [other for other, _ in pairs], f"{owner}: calls"):
            raise OrderError(text)
        return [one for _, one in pairs]

    def check_same(self, values: Sequence[object], owner: str, what: str) -> None:
        """Raise an error if the gathered objects differ."""
        if self.mesh.device_mesh is None:
            return  # a planned rank may not know yet what others have
        if text := differing(self.mesh.numbers, values, f"{owner}: {what}"):
            raise ValueError(text)

    def attempted(self, action: Callable[[], T], owner: str, what: str) -> T:
        """Return the result of an action; if it fails on one rank, raise an error on all."""
        result: T | None = None
        failure: Exception | None = None
        try:
            result = action()
        except Exception as error:
            failure = error
        text = None if failure is None else f"{type(failure).__name__}: {failure}"
        gathered = self.all_gather(text, owner, what)
        if failure is not None:
            raise failure
        for rank, text in zip(self.mesh.numbers, gathered, strict=True):
            if text is not None:
                raise RuntimeError(
                    f"{owner}: {what} must succeed on all ranks, got an error on rank {rank}: "
                    f"{text}"
                )
        return result  # type: ignore[return-value]  # it is there


def _add(flat: Tensor, group: dist.ProcessGroup, ordered: bool) -> None:
    """Sum over the ranks; in their order, if so: each rank sums a part and sends it to all."""
    if not ordered:
        dist.all_reduce(flat, group=group)
        return
    size = -(-len(flat) // group.size())
    mine = flat.new_zeros(group.size() * size)
    mine[: len(flat)] = flat
    others = torch.empty_like(mine)
    dist.all_to_all_single(others, mine, group=group)
    total, *rest = others.split(size)
    total = total.to(at_least_single(total.dtype))
    for part in rest:
        total += part
    dist.all_gather_single(mine, total.to(mine.dtype).contiguous(), group=group)
    flat.copy_(mine[: len(flat)])
