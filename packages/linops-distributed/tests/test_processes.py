"""Ranks as processes, as torchrun starts them; and what a rank sees of another one that fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 300  # that a test waits for a program; programs end themselves after it, whatever they do
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@contextmanager
def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run Python in a process group of its own, of which nothing is left afterwards."""
    with subprocess.Popen(
        [sys.executable, *command],
        env={**ENVIRONMENT, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def torchrun(n_ranks: int, program: str, options: Sequence[str] = (), **environment: str) -> str:
    """Return what a program prints over ranks that torchrun starts; none of them is left."""
    run = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_ranks}", *options]
    with started([*run, str(PROGRAMS / program), str(SECONDS)], environment) as process:
        said, complaint = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, complaint
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    return said


def test_laws_under_torchrun() -> None:
    """Over 4 ranks, and then over the first 3 and the first 2 of them."""
    said = torchrun(4, "laws.py")
    for n_ranks in (2, 3, 4):
        for rank in range(n_ranks):
            assert f"rank {rank} of {n_ranks} is done" in said


def test_what_is_not_alike_is_refused_with_the_checks_of_torch() -> None:
    """Each of them on both ranks, one after the other: the group lives on."""
    said = torchrun(2, "refused.py", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    for rank in range(2):
        assert f"rank {rank} is done" in said


@pytest.mark.parametrize("fault", ["killed", "hangs"])
def test_a_fault_of_one_rank_is_an_error_on_the_others(fault: str, tmp_path: Path) -> None:
    """It names the operator, the rank and the step; the ranks end by themselves."""
    command = [str(PROGRAMS / "faults.py"), str(SECONDS), fault, str(tmp_path / "store")]
    with ExitStack() as stack:
        ranks = [stack.enter_context(started([*command, str(rank)])) for rank in range(3)]
        for rank in (0, 2):
            said, complaint = ranks[rank].communicate(timeout=SECONDS)
            assert ranks[rank].returncode == 3, complaint
            step = "the sum of the output must be reached by all 3 ranks along (r)"
            assert f"DistributedLinop (N) -> (M): {step}" in said
            assert f"got on rank {rank}" in said
        if fault == "hangs":
            assert ranks[1].poll() is None
        else:
            assert ranks[1].wait(SECONDS) == -signal.SIGKILL


def test_ranks_in_threads_end_in_any_order() -> None:
    """In a process of its own: others may have ranks in this one."""
    with started([str(PROGRAMS / "threads.py")]) as process:
        _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, complaint
    assert not complaint


def test_ranks_that_are_started_again_go_on_to_the_same_bits(tmp_path: Path) -> None:
    """One of them is killed behind the fifth step; every second one is kept.

    Without that variable, torchrun keeps in its store where ranks were before.
    """
    environment = {"FOLDER": str(tmp_path), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    said = torchrun(2, "restarted.py", ["--max-restarts=1"], **environment)
    for rank in range(2):
        assert f"rank {rank} did the steps 4 to 8" in said
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"cg.pt", "cg.pt.previous", "cg.pt.rank1", "cg.pt.rank1.previous"}
