"""Plans of communication: bytes that ranks send, an estimate of the time, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import TypeAlias

from linops_multigpu import Span, Timeline

from .._ranks._transport import MARK_RIDES, Sent


@dataclass(frozen=True)
class Computed:
    """Computation of a rank between two steps of communication."""

    n_bytes: int
    """Bytes that the operations read and write."""


PlanStep: TypeAlias = Computed | Sent


@dataclass(frozen=True)
class Link:
    """The connection between ranks, by the model of latency and bandwidth.

    L is ceil(log2 n) for n ranks, or n-1 if the backend sums in a ring.

    - A sum of m bytes: 2 L latencies and the time to send 2 (n-1)/n m bytes.
    - An ordered sum: n-1+L latencies and the time to send 2 (n-1)/n m bytes.
    - A gather of m bytes from each rank: L latencies and the time to send (n-1) m bytes.
    - An exchange in which m bytes leave a rank: n-1 latencies and the time to send m bytes.
    - A message by which ranks compare their steps, if it is not sent with a sum: 2 L latencies.

    References
    ----------
    R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
    MPICH, International Journal of High Performance Computing Applications 19 (2005), section 4.
    """

    latency: float
    """Seconds for an empty message."""
    bandwidth: float
    """Bytes per second that a rank sends while it receives as many bytes."""
    is_ring: bool = False
    """Whether sums use a ring, as in gloo; NCCL uses trees for short messages."""

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.bandwidth > 0):
            raise ValueError(
                "Link: latency must not be negative and bandwidth must be positive, got "
                f"{self.latency} and {self.bandwidth}"
            )

    def seconds(self, sent: Sent) -> float:
        """Return the time of one message in seconds, with the mark that is sent with it."""
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
    """The steps of a group of ranks that all do the same, for each kind of call."""

    ranks: tuple[int, ...]
    steps: Mapping[str, tuple[PlanStep, ...]]
    """Steps for ``"forward"``, ``"adjoint"`` and ``"normal"``."""

    def sent(self, work: str) -> tuple[Sent, ...]:
        """Return the steps of communication."""
        return tuple(step for step in self.steps[work] if isinstance(step, Sent))

    def n_bytes(self, work: str) -> int:
        """Return the number of bytes that each of the ranks sums, gathers or exchanges."""
        return sum(sent.n_bytes for sent in self.sent(work))


@dataclass(frozen=True)
class MeshPlan:
    """What the ranks of a mesh send in A, A.H and A.N; ``print`` shows it as a table."""

    signature: str
    mesh: Mapping[str, int]
    """Dimensions of the mesh, with the number of ranks along each."""
    plans: tuple[RankPlan, ...]
    """One plan for each group of ranks that do the same."""

    @property
    def works(self) -> tuple[str, ...]:
        """Kinds of calls: forward, adjoint and normal."""
        return tuple(self.plans[0].steps)

    def of_rank(self, rank: int) -> RankPlan:
        """Return the plan of a rank."""
        return next(plan for plan in self.plans if rank in plan.ranks)

    def seconds(self, work: str, links: Links, memory_bandwidth: float = inf) -> float:
        """Return an estimate of the time of a call; see :meth:`timeline`."""
        return self.timeline(work, links, memory_bandwidth).makespan

    def timeline(self, work: str, links: Links, memory_bandwidth: float = inf) -> Timeline:
        """Return a timeline of computing and sending, by the model of latency and bandwidth.

        Before each step ranks wait for the slowest one. First calls take longer, because ranks
        compare their operators and inputs.

        Parameters
        ----------
        work : {"forward", "adjoint", "normal"}
        links : Link or mapping of dimension of the mesh to Link
            The connection between all ranks, or one for each dimension of the mesh. A step along
            several dimensions takes the time of the slowest.
        memory_bandwidth : float
            Bytes per second that the operations of a rank read and write. By default computing
            takes no time.

        Raises
        ------
        ValueError
            If ``work`` is not in the plan, a dimension has no link, or ``memory_bandwidth`` is not
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
                    f"{self.signature}: links must have an entry for {dim} of the mesh, got "
                    f"entries for {sorted(links)}"
                )
        return max(links[dim].seconds(sent) for dim in sent.mesh_dims)

    def __str__(self) -> str:
        """Return one line for each kind of call and each step, with the bytes of the ranks."""
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
    """Return the plan of all ranks, given the plan of each rank."""
    by_steps: dict[object, list[RankPlan]] = {}
    for plan in plans:
        by_steps.setdefault(tuple(plan.steps.items()), []).append(plan)
    together = [
        RankPlan(tuple(rank for plan in same for rank in plan.ranks), same[0].steps)
        for same in by_steps.values()
    ]
    return MeshPlan(signature, mesh, tuple(together))


def _rounds(steps: Sequence[PlanStep]) -> list[tuple[int, Sent | None]]:
    """Return pairs: bytes of the computation, and the step after it (None after the last)."""
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
