"""Ranks of which one is ended in the middle of a solve, and that go on from their files."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from linops_core import Dense, Identity
from linops_distributed import distribute_linop
from linops_distributed.testing import Ranked
from linops_solvers import (
    Step,
    admm,
    conjugate_gradients,
    fista,
    l2_squared,
    lsmr,
    lsqr,
    pdhg,
    soft_threshold,
)

pytestmark = pytest.mark.each_value

GENERATOR = torch.Generator().manual_seed(5)
W = torch.randn(7, 5, dtype=torch.complex128, generator=GENERATOR)
Y = torch.randn(7, dtype=torch.complex128, generator=GENERATOR)
LAST = 6
IS_THOROUGH = settings.get_current_profile_name() == "thorough"


class Ended(BaseException):
    """The end of all ranks, in place of a real one."""


def solved(
    ranks: Ranked, dim: str, end: int | None, y: Tensor = Y, **more: Any
) -> list[tuple[Tensor, list[int]]]:
    """Return, of each rank, the solution and the steps of which a callback is told."""
    linop = Dense(W, ("M", "N"), ("N",), ("M",))

    def program(rank: int) -> tuple[Tensor, list[int]]:
        A = distribute_linop(linop, ranks.mesh(r=ranks.n_ranks), {dim: "r"})
        steps: list[int] = []

        def note(step: Step) -> None:
            steps.append(step.iteration)
            if step.iteration == end:
                raise Ended

        options: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": LAST, **more}
        x = torch.empty(0)
        try:
            right = A.H(A.local_output(y))
            x = conjugate_gradients(A.N + Identity(A.ishape), right, callback=note, **options)
        except Ended:
            assert end is not None
        return x, steps

    return ranks.run(program)


def name_of(rank: int) -> str:
    return f"cg.pt.rank{rank}" if rank else "cg.pt"


def check_same(
    result: list[tuple[Tensor, list[int]]], wanted: list[tuple[Tensor, list[int]]]
) -> int:
    """Compare the bits of solutions; return the first step of which callbacks were told."""
    for (x, _), (z, _) in zip(result, wanted, strict=True):
        assert torch.equal(x, z)
    (first,) = {steps[0] for _, steps in result}
    return first


@pytest.mark.parametrize("dim", ["M", "N"])
def test_ranks_go_on_to_the_same_bits(ranks: Ranked, dim: str, tmp_path: Path) -> None:
    wanted = solved(ranks, dim, None)
    for end in range(1, LAST + 1) if IS_THOROUGH else (1, 4, 5):
        file = tmp_path / f"{dim}{end}"
        solved(ranks, dim, end, checkpoint=file, checkpoint_every=2)
        first = check_same(solved(ranks, dim, None, checkpoint=file, checkpoint_every=2), wanted)
        assert first == max(1, end - end % 2)
        names = {file.name, *(f"{file.name}.rank{rank}" for rank in range(1, ranks.n_ranks))}
        assert {*tmp_path.glob(f"{file.name}*")} == {
            tmp_path / f"{name}{end}" for name in names for end in ("", ".previous")
        }


@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("was_moved", [False, True])
def test_all_go_on_from_the_newest_step_that_all_have(
    three: Ranked, behind: int, was_moved: bool, tmp_path: Path
) -> None:
    """One is ended while it writes the fourth, twice."""
    wanted, file = solved(three, "N", None), tmp_path / "cg.pt"
    mine = tmp_path / name_of(behind)
    previous = mine.with_name(f"{mine.name}.previous")
    for _ in range(2):
        solved(three, "N", 4, checkpoint=file, checkpoint_every=1)
        mine.with_name(f"{mine.name}.writing").write_bytes(b"half of a fi")
        mine.unlink()
        if not was_moved:
            previous.rename(mine)
    assert check_same(solved(three, "N", None, checkpoint=file, checkpoint_every=1), wanted) == 3


def test_all_begin_anew_where_they_have_no_step_in_common(two: Ranked, tmp_path: Path) -> None:
    wanted, file = solved(two, "N", None), tmp_path / "cg.pt"
    solved(two, "N", 4, checkpoint=file, checkpoint_every=1)
    for path in tmp_path.glob("*rank1*"):
        path.unlink()
    solved(two, "N", 1, checkpoint=file, checkpoint_every=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cg.pt", "cg.pt.rank1"]
    assert check_same(solved(two, "N", None, checkpoint=file, checkpoint_every=1), wanted) == 1


def test_a_checkpoint_of_another_problem_is_refused_by_all(
    two: Ranked, three: Ranked, tmp_path: Path
) -> None:
    file = tmp_path / "cg.pt"
    solved(two, "N", 4, checkpoint=file)
    solved(two, "N", None, checkpoint=file)
    other = Y.clone()
    other[3] *= 1 + 1e-9
    for ranks, y, what in [
        (two, other, "differs in y"),
        (three, Y, "differs in .*"),
        (two, Y, "differs in shape"),
    ]:
        dim = "M" if what == "differs in shape" else "N"

        def program(
            rank: int,
            ranks: Ranked = ranks,
            y: Tensor = y,
            dim: str = dim,
            what: str = what,
        ) -> str:
            linop = Dense(W, ("M", "N"), ("N",), ("M",))
            A = distribute_linop(linop, ranks.mesh(r=ranks.n_ranks), {dim: "r"})
            right = A.H(A.local_output(y))
            options: dict[str, Any] = {"gtol": 0.0, "ltol": 0.0, "max_num_iters": LAST}
            with pytest.raises(ValueError, match=what) as caught:
                conjugate_gradients(A.N + Identity(A.ishape), right, checkpoint=file, **options)
            return str(caught.value)

        said = ranks.run(program)
        assert len({*said}) == 1
        assert "conjugate_gradients: rank 0: the checkpoint" in said[0]
        assert "delete" in said[0]


def test_what_one_rank_cannot_write_is_an_error_on_all(two: Ranked, tmp_path: Path) -> None:
    # A folder where the second state would put the first one.
    folder = tmp_path / "cg.pt.rank1.previous" / "folder"
    options = {"checkpoint": tmp_path / "cg.pt", "checkpoint_every": 1, "gtol": 0.0, "ltol": 0.0}

    def program(rank: int) -> str:
        linop = Dense(W, ("M", "N"), ("N",), ("M",))
        A = distribute_linop(linop, two.mesh(r=2), {"N": "r"})
        with pytest.raises(OSError, match="rank 1: the writing of a checkpoint") as caught:
            conjugate_gradients(
                A.N,
                A.H(Y),
                callback=lambda step: folder.mkdir(parents=True, exist_ok=True),
                **options,  # type: ignore[arg-type]
            )
        return str(caught.value)

    assert len({*two.run(program)}) == 1


Solver = Callable[..., Tensor]
SOLVERS: dict[str, Solver] = {
    "lsqr": lambda A, y, **o: lsqr(A, y, atol=0.0, btol=0.0, **o),
    "lsmr": lambda A, y, **o: lsmr(A, y, damp=0.1, atol=0.0, btol=0.0, **o),
    "fista": lambda A, y, **o: fista(A, y, soft_threshold(0.1), tol=0.0, **o),
    "admm": lambda A, y, **o: admm(A, y, soft_threshold(0.1), eps_rel=0.0, **o),
    "pdhg": lambda A, y, **o: pdhg(
        A, l2_squared(1.0, y), soft_threshold(0.1), A.H(y), eps_rel=0.0, **o
    ),
}


# The last step before the end may be one that is kept, or not.
CASES = (
    [*product(SOLVERS, "MN", range(1, 6), (1, 2))]
    if IS_THOROUGH
    else [*zip(SOLVERS, "MNMNM", (3, 4, 5, 3, 2), (2, 1, 2, 1, 2), strict=True)]
)


@pytest.mark.parametrize(("name", "dim", "end", "every"), CASES)
def test_other_solvers_go_on_to_the_same_bits(
    three: Ranked, name: str, dim: str, end: int, every: int
) -> None:
    linop = Dense(W, ("M", "N"), ("N",), ("M",))

    def program(rank: int, folder: str) -> None:
        A = distribute_linop(linop, three.mesh(r=3), {dim: "r"})
        y, result = A.local_output(Y), list[Step]()
        files = {"checkpoint": Path(folder) / "x.pt", "checkpoint_every": every}

        def end_there(step: Step) -> None:
            if step.iteration == end:
                raise Ended

        wanted = SOLVERS[name](A, y, max_num_iters=5)
        with suppress(Ended):
            SOLVERS[name](A, y, max_num_iters=5, callback=end_there, **files)
        x = SOLVERS[name](A, y, max_num_iters=5, callback=result.append, **files)
        assert torch.equal(x, wanted)
        assert result[0].iteration == max(1, end - end % every) or end == 5

    with TemporaryDirectory() as folder:
        three.run(lambda rank: program(rank, folder))
