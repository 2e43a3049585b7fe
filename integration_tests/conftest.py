"""What the tests of the demos share: runs that are interrupted at a moment of their own choice."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Torch takes seconds to import: runs that are interrupted after that begin with a copy of one
# process that has imported it.
INTERRUPTED_AT = """
import json, os, runpy, signal, sys
script, modules, runs = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path.insert(0, os.path.dirname(script))
for module in modules:
    __import__(module)
for moment, name, options, said in runs:
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 2)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
armed = [True]

def interrupt(event, arguments):
    if armed and event == moment and str(arguments[0]).endswith(name):
        armed.clear()
        signal.raise_signal(signal.SIGINT)

sys.addaudithook(interrupt)
sys.argv = [script, *options]
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[tuple[int, str]]]:
    """Returns the status and the errors of runs of a script, each interrupted once."""

    def run(
        script: str, imported: Sequence[str], runs: Sequence[tuple[str, str, Sequence[str]]]
    ) -> list[tuple[int, str]]:
        """Each run has the name and the first argument of an audit event, and its options."""
        folder = tmp_path_factory.mktemp("said")
        said = [folder / str(number) for number in range(len(runs))]
        whole = [[*one, str(file)] for one, file in zip(runs, said, strict=True)]
        arguments = [str(EXAMPLES / script), json.dumps(imported), json.dumps(whole)]
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED_AT, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        statuses = map(int, done.stdout.split())
        return [(status, file.read_text()) for status, file in zip(statuses, said, strict=True)]

    return run
