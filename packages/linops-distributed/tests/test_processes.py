"""Ranks as processes, as torchrun starts them; and what a rank sees of another one that fails."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 120  # that a test waits for a program; programs end themselves after it, whatever they do
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run Python in a process group of its own, of which nothing is left afterwards."""
    with subprocess.Popen(
        [sys.executable, *command],
        env=ENVIRONMENT,
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


def test_two_ranks_under_torchrun() -> None:
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with started([*run, str(PROGRAMS / "laws.py"), str(SECONDS)]) as torchrun:
        said, complaint = torchrun.communicate(timeout=SECONDS)
    assert torchrun.returncode == 0, complaint
    assert "rank 0 of 2 is done" in said
    assert "rank 1 of 2 is done" in said


@pytest.mark.parametrize("fault", ["killed", "hangs", "raises"])
def test_a_fault_of_one_rank_is_an_error_on_the_other(fault: str, tmp_path: Path) -> None:
    """It names the operator, the rank and the step; the rank ends by itself."""
    command = [str(PROGRAMS / "faults.py"), str(SECONDS), fault, str(tmp_path / "store")]
    with started([*command, "0"]) as first, started([*command, "1"]) as second:
        said, complaint = first.communicate(timeout=SECONDS)
        if fault == "hangs":
            assert second.poll() is None
        else:
            assert second.wait(SECONDS) == {"killed": -signal.SIGKILL, "raises": 4}[fault]
    assert first.returncode == 3, complaint
    step = "the sum of the output must be reached by all 2 ranks along (r)"
    assert f"DistributedLinop (N) -> (M): {step}" in said
    assert "got on rank 0" in said


def test_ranks_in_threads_end_in_any_order() -> None:
    """In a process of its own: others may have ranks in this one."""
    with started([str(PROGRAMS / "threads.py")]) as process:
        _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, complaint
    assert not complaint
