"""What a plan says, and how long it takes by the model."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest
import torch

from linops_core import FFT, Dense, Diagonal, NamedLinop, SplitError, Stack
from linops_distributed import Computed, Link, Sent, distribute_linop, plan_mesh
from linops_distributed.testing import Ranked


def sense() -> NamedLinop:
    maps = torch.zeros(5, 8, dtype=torch.complex64)
    return FFT(1, batch_shape=("C",)) @ Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))


def test_it_says_who_sends_what() -> None:
    assert str(plan_mesh(sense(), {"coils": 4}, {"C": "coils"})).splitlines() == [
        "Chain (Nx) -> (C, Kx) on a mesh of coils 4",
        "  forward, ranks 0-3: nothing",
        "  adjoint, ranks 0-3:",
        "    sum of 64 bytes along (coils), 4 ranks: the sum of the output",
        "  normal, ranks 0-3:",
        "    sum of 64 bytes along (coils), 4 ranks: the sum of the output",
    ]


@pytest.mark.parametrize("side", ["idim_and_idx", "odim_and_idx"])
def test_operands_of_ranks_differ(two: Ranked, side: str) -> None:
    """In what they compute, and in their dtypes: a sum is in the widest."""
    weight = torch.ones(2, 3)
    longer = Dense(weight + 0j, ("M", "N")) @ Diagonal(torch.ones(3), ("N",))
    options: dict[str, Any] = {side: ("K", 0)}
    A = Stack(Dense(weight, ("M", "N")), longer, **options)
    planned = plan_mesh(A, {"r": 2}, {"K": "r"}, dtype=torch.float32)

    def program(rank: int) -> None:
        B = distribute_linop(A, two.mesh(r=2), {"K": "r"})
        assert B.plan(dtype=torch.float32).of_rank(rank).steps == planned.of_rank(rank).steps

    two.run(program)


def test_the_weights_need_no_memory() -> None:
    maps = torch.zeros(5, 8, dtype=torch.complex64, device="meta")
    without = FFT(1, batch_shape=("C",)) @ Dense(maps, ("C", "Nx"), ("Nx",), ("C", "Nx"))
    plans = [plan_mesh(linop, {"coils": 4}, {"C": "coils"}) for linop in (without, sense())]
    assert plans[0] == plans[1]


def test_the_time_of_a_sum_and_of_what_is_gathered() -> None:
    def sent(kind: str, n_bytes: int) -> Sent:
        return Sent("step", kind, ("r",), 8, n_bytes)

    link, ring = Link(2.0, 4.0), Link(2.0, 4.0, is_ring=True)
    assert link.seconds(sent("sum", 64)) == 2 * 3 * 2 + 2 * 7 / 8 * 16
    assert ring.seconds(sent("sum", 64)) == 2 * 7 * 2 + 2 * 7 / 8 * 16
    assert link.seconds(sent("gather", 64)) == 6 + 7 * 16 + 12
    assert link.seconds(sent("exchange", 64)) == 14 + 16 + 12
    assert link.seconds(sent("ordered sum", 64)) == 14 + 6 + 2 * 7 / 8 * 16
    large = 2**21
    assert link.seconds(sent("sum", large)) == 12 + 2 * 7 / 8 * large / 4 + 12


def test_the_slowest_rank_is_waited_for() -> None:
    plan = plan_mesh(sense(), {"coils": 4}, {"C": "coils"})
    (full,) = (one for one in plan.plans if 0 in one.ranks)
    (computed, sent) = full.steps["adjoint"]
    (half,) = (one for one in plan.plans if 2 in one.ranks)
    (less, _) = half.steps["adjoint"]
    assert isinstance(computed, Computed) and isinstance(sent, Sent)
    assert isinstance(less, Computed) and 0.4 < less.n_bytes / computed.n_bytes < 0.7
    link = Link(1.0, 8.0)
    spans = plan.timeline("adjoint", link, memory_bandwidth=2.0).spans
    (sum_,) = (span for span in spans if span.kind == "sum")
    assert sum_.start == computed.n_bytes / 2 == max(s.end for s in spans if s.kind == "compute")
    assert plan.seconds("adjoint", link, 2.0) == sum_.end == sum_.start + link.seconds(sent)
    assert plan.seconds("adjoint", {"coils": link}) == link.seconds(sent)
    assert plan.seconds("forward", link) == 0
    assert {span.engine for span in spans} == {"ranks 0-1", "rank 2", "rank 3", "along coils"}


def test_the_picture_has_a_row_for_ranks_that_do_the_same() -> None:
    plan = plan_mesh(sense(), {"coils": 1024}, {"C": "coils"})
    drawn = ET.fromstring(plan.timeline("normal", Link(1e-5, 1e10), 1e10).to_svg())
    texts = [result.text for result in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"ranks 0-4", "ranks 5-1023", "along coils"} <= {*texts}


@pytest.mark.parametrize(
    ("made", "error", "match"),
    [
        (lambda: plan_mesh(3, {"r": 2}, {"N": "r"}), TypeError, "must be a NamedLinop"),  # type: ignore[arg-type]
        (lambda: plan_mesh(sense(), {"r": 0}, {"C": "r"}), TypeError, "positive numbers of ranks"),
        (lambda: plan_mesh(sense(), {"r": 2}, {"K": "r"}), SplitError, "must be one of"),
        (lambda: plan_mesh(sense(), {"r": 2}, {"C": "q"}), ValueError, "C must be placed on one"),
        (
            lambda: plan_mesh(Diagonal(torch.ones(3), ("N",)), {"r": 2}, {"N": "r"}),
            ValueError,
            "give dtype or like",
        ),
        (lambda: Link(-1.0, 1.0), ValueError, "latency must not be negative"),
        (lambda: Link(1.0, 0.0), ValueError, "bandwidth must be positive"),
    ],
)
def test_what_cannot_be_planned(made: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        made()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("backward", Link(0.0, 1.0)), "work must be one of"),
        (("normal", {}), "links must have an entry for r of the mesh"),
        (("normal", Link(0.0, 1.0), 0.0), "memory_bandwidth must be positive"),
    ],
)
def test_times_that_are_not_known(arguments: tuple[object, ...], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        plan_mesh(sense(), {"r": 2}, {"C": "r"}).timeline(*arguments)  # type: ignore[arg-type]


def test_a_plan_of_an_operator_that_has_no_ranks_yet_and_of_one_that_reads_values(
    two: Ranked,
) -> None:
    def program(rank: int) -> None:
        A = distribute_linop(Diagonal(torch.ones(4), ("N",)), two.mesh(r=2), {"N": "r"})
        with pytest.raises(ValueError, match="give dtype or like"):
            A.plan()
        assert A.plan(dtype=torch.float32).plans[0].ranks == (0, 1)

    two.run(program)
