"""Ranks as processes, as torchrun starts them; and what a rank sees of another one that fails."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

PROGRAMS = Path(__file__).parent / "programs"
README = Path(__file__).parents[1] / "README.md"
SECONDS = 300  # that a test waits for a program; programs end themselves after it, whatever they do
IS_THOROUGH = settings.get_current_profile_name() == "thorough"
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


@dataclass
class Ended:
    """How the ranks of a program ended, and what they wrote."""

    codes: list[int | None]
    said: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All programs, run at once: ranks are processes that one process forks."""
    folder = tmp_path_factory.mktemp("ranks")
    with started([str(PROGRAMS / "forked.py"), str(SECONDS), str(folder)]) as process:
        said, complaint = process.communicate(timeout=2 * SECONDS)
        assert process.returncode == 0, complaint
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)

    def written(name: str, suffix: str, n_ranks: int) -> list[str]:
        return [(folder / f"{name}{rank}.{suffix}").read_text() for rank in range(n_ranks)]

    return {
        name: Ended(codes, *(written(name, suffix, len(codes)) for suffix in ("said", "complaint")))
        for name, codes in json.loads(said).items()
    }


def test_laws_over_processes(ended: dict[str, Ended]) -> None:
    """Over 4 ranks, and then over the first 3 of them."""
    laws = ended["laws"]
    assert laws.codes == [0] * 4, laws.complaints
    for rank, said in enumerate(laws.said):
        counts = [n_ranks for n_ranks in (4, 3) if rank < n_ranks]
        assert said.splitlines() == [f"rank {rank} of {n_ranks} is done" for n_ranks in counts]


def test_what_is_not_alike_is_refused_with_the_checks_of_torch(ended: dict[str, Ended]) -> None:
    """Each of them on both ranks, one after the other: the group lives on."""
    refused = ended["refused"]
    assert refused.codes == [0, 0], refused.complaints
    assert refused.said == [f"rank {rank} is done\n" for rank in range(2)]


def test_networks_with_an_operator_are_trained(ended: dict[str, Ended]) -> None:
    """By DistributedDataParallel and by FSDP2, as in one process."""
    networks = ended["networks"]
    assert networks.codes == [0, 0], networks.complaints
    assert networks.said == [f"rank {rank} is done\n" for rank in range(2)]


@pytest.mark.parametrize("fault", ["killed", "hangs"])
def test_a_fault_of_one_rank_is_an_error_on_the_others(ended: dict[str, Ended], fault: str) -> None:
    """It names the operator, the rank and the step; the ranks end by themselves."""
    faults = ended[fault]
    assert faults.codes == [3, None if fault == "hangs" else -signal.SIGKILL, 3], faults.complaints
    for rank in (0, 2):
        step = "the sum of the output must be reached by all 3 ranks along (r)"
        assert f"DistributedLinop (N) -> (M): {step}" in faults.said[rank]
        assert f"got an error on rank {rank}" in faults.said[rank]


def test_ranks_in_threads_end_in_any_order(ended: dict[str, Ended]) -> None:
    """In a process of its own: others may have ranks in this one."""
    assert (ended["threads"].codes, ended["threads"].complaints) == ([0], [""])


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


@pytest.mark.parametrize("n_ranks", [2, 4] if IS_THOROUGH else [2])  # each imports torch
def test_the_readme_runs_and_ends_over_ranks(tmp_path: Path, n_ranks: int) -> None:
    """Each example is one program; gloo aborts some that end with a group, after right results."""
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
    programs = [example for example in examples if "run_rank(" in example]
    assert len(programs) == 2
    script = tmp_path / "script.py"
    script.write_text("\n".join(programs), "utf-8")
    torchrun(n_ranks, str(script))
