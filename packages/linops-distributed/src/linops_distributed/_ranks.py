"""The ranks of a mesh and their communication: sums, gathers, exchanges, comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Self, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from ._private_torch import assert_later, outside_of_modes

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

T = TypeVar("T")

# Above this number of bytes, an extra message of a few numbers is negligible. Below it, copying the
# message is faster than sending an extra one.
MARK_RIDES = 2**20


class OrderError(RuntimeError):
    """Ranks meet at different steps."""


@dataclass(frozen=True)
class Sent:
    """One call of torch.distributed at a rank, with its number of bytes."""

    step: str
    kind: str
    mesh_dims: tuple[str, ...]
    n_ranks: int
    n_bytes: int
    """Bytes of the summed or gathered tensor of this rank; for an exchange, bytes that leave it."""


@dataclass(frozen=True)
class Meeting:
    """The first message of a call; a rank can send another mark in its place."""

    dims: tuple[str, ...]
    n_numbers: int
    """Numbers that are sent with the mark; 0 if the mark is sent before them."""
    dtype: torch.dtype
    device: torch.device


@dataclass(eq=False)
class Ranks:
    """The ranks of a mesh, seen from one of them.

    Every collective belongs to a named step. Errors of the transport name the step, the operator
    and the rank. A rank that does not arrive is an error after the timeout of the group. If ranks
    meet at different steps, all get an error, and nothing is summed.
    """

    sizes: Mapping[str, int]
    """Dimensions of the mesh, with the number of ranks along each."""
    at: Mapping[str, int]
    """The index of this rank along each of them."""
    numbers: Sequence[int]
    """The numbers of all ranks of the mesh, in its order."""
    ordered: bool = False
    mesh: DeviceMesh | None = None
    """The DeviceMesh; None while a mesh is planned."""
    is_dry: bool = False
    """Whether communication is only recorded and not done."""
    heard: Iterator[object] | None = None
    """While a mesh is planned: objects of the first rank, for ranks without work."""
    said: list[object] = field(default_factory=list)
    """While a mesh is planned: objects of this rank."""
    log: list[Sent] | None = None
    """A list to record communication in, or None."""
    serial: int = 0
    """Number of the distributed operator, the same on all ranks."""
    calls: set[object] = field(init=False, default_factory=set)
    """Calls that ranks have compared: operator, and dtype, shape and gradient of the input."""
    meetings: dict[str, Meeting] = field(init=False, default_factory=dict)
    """The first message of each compared call."""
    met: Meeting | None = field(init=False, default=None)
    """The first message of the current call."""
    _groups: dict[tuple[str, ...], dist.ProcessGroup] = field(default_factory=dict)

    @classmethod
    def of(cls, mesh: DeviceMesh, ordered: bool = False) -> Self:
        """Return the ranks of a mesh with names that contains this process."""
        names = mesh.mesh_dim_names or ()
        sizes = dict(zip(names, mesh.shape, strict=True))
        at = dict(zip(names, mesh.get_coordinate() or (), strict=True))
        return cls(sizes, at, mesh.mesh.flatten().tolist(), ordered, mesh)

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions of the mesh."""
        return tuple(self.sizes)

    @property
    def rank(self) -> int:
        """The global number of this rank."""
        number = 0
        for name, size in self.sizes.items():
            number = number * size + self.at[name]
        return self.numbers[number]

    def size(self, dims: Sequence[str]) -> int:
        """Return the number of ranks along these dimensions."""
        return prod(self.sizes[dim] for dim in dims)

    def prepare(self, dims: Sequence[str]) -> None:
        """Make the process group along these dimensions; all ranks must call it."""
        dims = tuple(dims)
        if self.mesh is not None and dims and dims not in self._groups:
            if len(dims) == 1:
                group = self.mesh.get_group(dims[0])
            else:
                part = self.mesh if dims == self.names else self.mesh[dims]
                group = part._flatten().get_group()
            self._groups[dims] = group

    def __deepcopy__(self, memo: dict[int, object]) -> Ranks:
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
                f"{owner}: {what} must be reached by all {self.size(dims)} ranks along "
                f"({', '.join(dims)}) of the mesh before the timeout of their group, got an error "
                f"on rank {self.rank}: {error}; another rank has failed, waits elsewhere "
                "or has ended"
            ) from error

    def sum(self, x: Tensor, dims: Sequence[str], owner: str, what: str) -> Tensor:
        """Return the sum over the ranks along some dimensions of the mesh, in the memory of x."""
        if self.size(dims) == 1 or not x.numel():
            return x
        x = x.resolve_conj().resolve_neg().contiguous()
        flat = (torch.view_as_real(x) if x.is_complex() else x).view(-1)
        kind = "ordered sum" if self.ordered else "sum"
        rides = flat.nbytes <= MARK_RIDES

        def send(group: dist.ProcessGroup) -> None:
            mark = _mark(step, flat.dtype, flat.device)
            marked = torch.cat([flat, mark]) if rides else flat
            if self.ordered:
                _ordered_sum(marked, self.size(dims), group)
            else:
                dist.all_reduce(marked, group=group)
            if rides:
                data, marks = marked.split([len(flat), len(mark)])
                self._check_marks(marks, mark, group, step, owner)
                flat.copy_(data)

        step = f"{self._step_name(owner, what)}: {kind} of {len(flat)} numbers of {flat.dtype}"
        if rides and self.met is None:
            self.met = Meeting(tuple(dims), len(flat), flat.dtype, flat.device)
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
        found = padded.new_empty((len(lengths) * len(padded), *rows.shape[1:]))
        pair = [torch.view_as_real(t) if t.is_complex() else t for t in (found, padded)]

        def send(group: dist.ProcessGroup) -> None:
            dist.all_gather_single(pair[0], pair[1], group=group)

        step = f"{self._step_name(owner, what)}: gather of {tuple(padded.shape)} of {padded.dtype}"
        self.collective(send, pair[1], "gather", (dim,), owner, what, step)
        parts = found.split(len(padded))
        whole = torch.cat([part[:n] for part, n in zip(parts, lengths, strict=True)])
        return whole.movedim(0, axis)

    def exchanged(
        self, parts: Sequence[Tensor], n_found: Sequence[int], dim: str, owner: str, what: str
    ) -> Tensor:
        """Return what the ranks along a dimension of the mesh send to this one, one after another.

        Parameters
        ----------
        parts : sequence of Tensor
            The tensor for each rank, also for this one.
        n_found : sequence of int
            The number of elements that each rank sends.
        """
        n_sent = [part.numel() for part in parts]
        packed = parts[0].new_empty(sum(n_sent))
        for part, place in zip(parts, packed.split(n_sent), strict=True):
            place.view(part.shape).copy_(part)  # resolves conjugates
        found = packed.new_empty(sum(n_found))
        there, here = (torch.view_as_real(t) if t.is_complex() else t for t in (found, packed))

        def send(group: dist.ProcessGroup) -> None:
            dist.all_to_all_single(there, here, [*n_found], n_sent, group=group)

        leaving = here[: len(packed) - n_sent[self.at[dim]]]  # as many as are sent
        step = f"{self._step_name(owner, what)}: exchange of {packed.dtype}"
        self.collective(send, leaving, "exchange", (dim,), owner, what, step)
        return found

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
            self.log.append(Sent(what, kind, dims, self.size(dims), sent.nbytes))
        if self.is_dry:
            return
        group = self._groups[dims]
        with self.step(owner, what, dims):
            if step is not None:
                meeting = Meeting(dims, 0, torch.float32, sent.device)
                self.met = self.met or meeting
                self._meet(meeting, step, owner)
            send(group)

    def interrupt(self, meeting: Meeting, owner: str, what: str, reason: str) -> None:
        """Send another mark in place of the message of the others.

        It is an error on all ranks, unless all do the same.
        """
        if self.is_dry:
            return
        with self.step(owner, what, meeting.dims):
            self._meet(meeting, self._step_name(owner, what), owner, reason)

    def _meet(self, meeting: Meeting, step: str, owner: str, reason: str = "") -> None:
        """Compare marks, with zeros in place of the numbers that are sent with them."""
        group = self._groups[meeting.dims]
        mark = _mark(step, meeting.dtype, meeting.device)
        marks = torch.cat([mark.new_zeros(meeting.n_numbers), mark])
        if self.ordered and meeting.n_numbers:
            _ordered_sum(marks, self.size(meeting.dims), group)
        else:
            dist.all_reduce(marks, group=group)
        self._check_marks(marks[meeting.n_numbers :], mark, group, step + reason, owner)

    def _step_name(self, owner: str, what: str) -> str:
        """Return the name of a step, which is equal on ranks only at the same step."""
        return f"{what} of {owner} (operator {self.serial})"

    def _check_marks(
        self, total: Tensor, mark: Tensor, group: dist.ProcessGroup, step: str, owner: str
    ) -> None:
        """Raise an error if the sum of marks shows that another rank is at another step."""
        if total.is_cpu and torch.equal(total, mark * group.size()):
            return
        # A dtype of few digits may round the number, but not zero.
        is_right = (total * (1 - mark) == 0).all()
        if not is_right.is_cpu:
            assert_later(is_right, f"all ranks must be at the same step, got {step}")
        elif not is_right:
            found: list[str | None] = [None] * group.size()
            dist.all_gather_object(found, step, group=group)
            members = dist.get_process_group_ranks(group)
            raise OrderError(_differing(members, found, f"{owner}: calls"))

    def told(self, value: T, owner: str, what: str) -> list[T]:
        """Gather an object of every rank, in order."""
        found: list[tuple[str, T] | None] = [None] * len(self.numbers)
        if self.mesh is None:
            self.said.append(value)
            others = value if self.heard is None else cast(T, next(self.heard))
            return [*[others] * (len(found) - 1), value]
        if len(found) == 1:
            return [value]
        step = self._step_name(owner, what)
        # Ranks compare values also while operators run without data.
        with self.step(owner, what, self.names), outside_of_modes():
            dist.all_gather_object(found, (step, value), group=self._groups[self.names])
        pairs = [pair for pair in found if pair is not None]
        if text := _differing(self.numbers, [other for other, _ in pairs], f"{owner}: calls"):
            raise OrderError(text)
        return [one for _, one in pairs]

    def coordinates(self) -> list[dict[str, int]]:
        """Return the coordinates of each rank in the mesh."""
        places = product(*map(range, self.sizes.values()))
        return [dict(zip(self.names, place, strict=True)) for place in places]

    def check_same(self, values: Sequence[object], owner: str, what: str) -> None:
        """Raise an error if the gathered objects differ."""
        if text := _differing(self.numbers, values, f"{owner}: {what}"):
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
        told = self.told(text, owner, what)
        if failure is not None:
            raise failure
        failed = {rank: one for rank, one in zip(self.numbers, told, strict=True) if one}
        if failed:
            rank, text = next(iter(failed.items()))
            raise RuntimeError(
                f"{owner}: {what} must succeed on all ranks, got an error on rank {rank}: {text}"
            )
        return result  # type: ignore[return-value]  # it is there


def _ordered_sum(flat: Tensor, n_ranks: int, group: dist.ProcessGroup) -> None:
    """Sum in the order of the ranks: each rank sums a part of the tensor and sends it to all."""
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


@lru_cache(maxsize=1024)
def _mark(text: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 64 numbers for a text: the bits of its hash, and their complements.

    If texts differ, the sum over the ranks is not zero at some zero of each rank's own mark. Every
    dtype represents zero and one exactly.
    """
    digest = blake2b(text.encode(), digest_size=4).digest()
    bits = [byte >> place & 1 for byte in digest for place in range(8)]
    return torch.tensor([*bits, *[1 - bit for bit in bits]], dtype=dtype, device=device)


def _differing(ranks: Sequence[int], values: Sequence[object], subject: str) -> str:
    """Return a message with the object of each rank, empty if all are equal."""
    by_text: dict[str, list[int]] = {}
    for rank, text in zip(ranks, map(str, values), strict=True):
        by_text.setdefault(text, []).append(rank)
    if len(by_text) == 1:
        return ""
    found = "; ".join(f"{text} on rank {_listed(ranks)}" for text, ranks in by_text.items())
    return f"{subject} must be the same on all ranks, got {found}"


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
