"""What the ranks of a mesh send, as data: bytes, an estimate of the time, and a picture of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import TypeAlias

from linops_multigpu import Span, Timeline

from ._ranks import MARK_RIDES, Sent


@dataclass(frozen=True)
class Computed:
    """What a rank computes between two steps in which it sends."""

    n_bytes: int
    """That its operations read and write, each by itself."""


Step: TypeAlias = Computed | Sent


@dataclass(frozen=True)
class Link:
    """The way between ranks, by the model of latency and bandwidth.

    A sum of m bytes over n ranks takes 2 L latencies and the time to send 2 (n-1)/n m bytes, where
    L is ceil(log2 n), or n-1 if the backend sums in a ring. What is gathered, m bytes from each
    rank, takes L latencies and the time of (n-1) m bytes; an exchange in which m bytes leave a
    rank takes n-1 latencies and their time. An ordered sum takes n-1+L latencies and the time of
    2 (n-1)/n m bytes. The mark of a step, where it does not ride with a sum, takes 2 L latencies.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
    MPICH, International Journal of High Performance Computing Applications 19 (2005), section 4.
    """

    latency: float
    """Seconds until a rank has a message without content of another."""
    bandwidth: float
    """Bytes per second that a rank sends while it receives as many."""
    is_ring: bool = False
    """Whether sums go from rank to rank, as with gloo; NCCL has trees for short ones."""

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ValueError(
                "Link: latency must not be negative and bandwidth must be positive, got "
                f"{self.latency} and {self.bandwidth}"
            )

    def seconds(self, sent: Sent) -> float:
        """Return how long a step takes, with the mark of its order."""
        n, size = sent.n_ranks, sent.n_bytes / self.bandwidth
        hops = n - 1 if self.is_ring else ceil(log2(n))
        rides = sent.kind.endswith("sum") and sent.n_bytes <= MARK_RIDES
        mark = 0.0 if rides else 2 * hops * self.latency
        if sent.kind == "sum":
            return mark + 2 * hops * self.latency + 2 * (n - 1) / n * size
        if sent.kind == "gather":
            return mark + hops * self.latency + (n - 1) * size
        if sent.kind == "ordered sum":
            return mark + (n - 1 + hops) * self.latency + 2 * (n - 1) / n * size
        return mark + (n - 1) * self.latency + size


Links: TypeAlias = Link | Mapping[str, Link]


@dataclass(frozen=True)
class RankPlan:
    """What some ranks do, each the same: one after the other, for each kind of call."""

    ranks: tuple[int, ...]
    steps: Mapping[str, tuple[Step, ...]]
    """For ``"forward"``, ``"adjoint"`` and ``"normal"``."""

    def sent(self, work: str) -> tuple[Sent, ...]:
        """Return what is sent."""
        return tuple(step for step in self.steps[work] if isinstance(step, Sent))

    def n_bytes(self, work: str) -> int:
        """Return how many bytes are summed, gathered or exchanged, at each of the ranks."""
        return sum(sent.n_bytes for sent in self.sent(work))


@dataclass(frozen=True)
class MeshPlan:
    """What the ranks of a mesh send in a forward, an adjoint and a normal; ``str`` is a table."""

    signature: str
    mesh: Mapping[str, int]
    """The dimensions of the mesh, and how many ranks there are along each."""
    plans: tuple[RankPlan, ...]
    """Of all ranks, those together that do the same."""

    @property
    def works(self) -> tuple[str, ...]:
        """What the plan is for: forward, adjoint and normal."""
        return tuple(self.plans[0].steps)

    def of_rank(self, rank: int) -> RankPlan:
        """Return what a rank does."""
        return next(plan for plan in self.plans if rank in plan.ranks)

    def seconds(self, work: str, links: Links, memory_bandwidth: float = inf) -> float:
        """Return an estimate of the time of a call; see :meth:`timeline`."""
        return self.timeline(work, links, memory_bandwidth).makespan

    def timeline(self, work: str, links: Links, memory_bandwidth: float = inf) -> Timeline:
        """Return when the ranks compute and send, by the model of latency and bandwidth.

        Ranks wait for the slowest before they send. First calls, in which ranks compare what they
        have, take longer.

        Parameters
        ----------
        work : {"forward", "adjoint", "normal"}
        links : Link or mapping of dimension of the mesh to Link
            The way between all ranks, or those along each dimension. What goes along several takes
            the time of the slowest.
        memory_bandwidth : float
            Bytes per second that the operations of a rank read and write; by default they take no
            time.

        Raises
        ------
        ValueError
            If ``work`` is none of the plan, a dimension has no link, or ``memory_bandwidth`` is not
            positive.
        """
        if work not in self.works:
            raise ValueError(f"{self.signature}: work must be one of {self.works}, got {work!r}")
        if not memory_bandwidth > 0:
            raise ValueError(
                f"{self.signature}: memory_bandwidth must be positive, got {memory_bandwidth}"
            )
        spans: list[Span] = []
        now = 0.0
        for together in zip(*[_rounds(plan.steps[work]) for plan in self.plans], strict=True):
            end = now
            for plan, (computed, _) in zip(self.plans, together, strict=True):
                done = now + computed / memory_bandwidth
                if done > now:
                    spans.append(Span(_rank_text(plan.ranks), "compute", "", now, done))
                end = max(end, done)
            times = {sent: self._seconds(sent, links) for _, sent in together if sent is not None}
            now = end
            if times:
                sent = max(times, key=times.__getitem__)
                now = end + times[sent]
                engine = f"along {', '.join(sent.mesh_dims)}"
                spans.append(Span(engine, sent.kind, sent.step, end, now))
        return Timeline(tuple(spans))

    def _seconds(self, sent: Sent, links: Links) -> float:
        if isinstance(links, Link):
            return links.seconds(sent)
        for dim in sent.mesh_dims:
            if dim not in links:
                raise ValueError(
                    f"{self.signature}: links must have one for {dim} of the mesh, got those of "
                    f"{sorted(links)}"
                )
        return max(links[dim].seconds(sent) for dim in sent.mesh_dims)

    def __str__(self) -> str:
        """Return a line for each kind of call and each step, and the bytes of the ranks."""
        sizes = " x ".join(f"{name} {size}" for name, size in self.mesh.items())
        lines = [f"{self.signature} on a mesh of {sizes}"]
        for work in self.works:
            together: dict[tuple[Sent, ...], list[int]] = {}
            for plan in self.plans:
                together.setdefault(plan.sent(work), []).extend(plan.ranks)
            for sent, ranks in together.items():
                lines.append(f"  {work}, {_rank_text(ranks)}:" + " nothing" * (not sent))
                for one in sent:
                    dims = ", ".join(one.mesh_dims)
                    lines.append(
                        f"    {one.kind} of {one.n_bytes} bytes along ({dims}), {one.n_ranks} "
                        f"ranks: {one.step}"
                    )
        return "\n".join(lines)


def merged(signature: str, mesh: Mapping[str, int], plans: Sequence[RankPlan]) -> MeshPlan:
    """Return the plan of all ranks, given that of each."""
    by_steps: dict[object, list[RankPlan]] = {}
    for plan in plans:
        by_steps.setdefault(tuple(plan.steps.items()), []).append(plan)
    together = [
        RankPlan(tuple(rank for plan in same for rank in plan.ranks), same[0].steps)
        for same in by_steps.values()
    ]
    return MeshPlan(signature, mesh, tuple(together))


def _rounds(steps: Sequence[Step]) -> list[tuple[int, Sent | None]]:
    """Return pairs of bytes that are computed with, and what is sent then; last comes None."""
    rounds: list[tuple[int, Sent | None]] = []
    computed = 0
    for step in steps:
        if isinstance(step, Sent):
            rounds.append((computed, step))
            computed = 0
        else:
            computed += step.n_bytes
    return [*rounds, (computed, None)]


def _rank_text(ranks: Sequence[int]) -> str:
    """Return numbers with those that follow each other as first-last.

    Examples
    --------
    >>> _rank_text([0, 1, 2, 5])
    'ranks 0-2, 5'
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], rank]
        else:
            runs.append([rank, rank])
    texts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(texts)}"
