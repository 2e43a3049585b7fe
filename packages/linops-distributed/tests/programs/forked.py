"""Ranks of several programs, forked from this process, which has imported what all of them need.

It prints how each rank ended, as JSON. What a rank writes goes into files of the folder.
"""

import json
import os
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import torch._dynamo  # torch imports it late

import linops_distributed.testing.strategies  # noqa: F401  # imported once, for all ranks

GROUPS = {"laws": 4, "refused": 2, "networks": 2, "killed": 3, "hangs": 3, "threads": 1}
SLEEPS = ("hangs", 1)  # a rank that is there until it is killed

torch.testing.assert_close(torch.ones(1), torch.ones(1))  # it imports much at its first call
seconds, folder = int(sys.argv[1]), Path(sys.argv[2])


def be_rank(name: str, rank: int) -> None:
    """Run the program of a group in this process, as one of its ranks."""
    for stream, suffix in ((sys.stdout, "said"), (sys.stderr, "complaint")):
        with open(folder / f"{name}{rank}.{suffix}", "w") as file:
            os.dup2(file.fileno(), stream.fileno())
    program = "faults" if name in ("killed", "hangs") else name
    arguments = [seconds, folder / f"{name}.store", rank, GROUPS[name], name]
    sys.argv = [program, *map(str, arguments)]
    runpy.run_path(str(Path(__file__).with_name(f"{program}.py")), run_name="__main__")


pids: dict[tuple[str, int], int] = {}
for name, n_ranks in GROUPS.items():
    for rank in range(n_ranks):
        if not (pid := os.fork()):
            code = 1
            try:
                be_rank(name, rank)
                code = 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        pids[name, rank] = pid

ended: dict[str, list[int | None]] = {name: [None] * n_ranks for name, n_ranks in GROUPS.items()}
until = time.monotonic() + seconds
waited = {key: pid for key, pid in pids.items() if key != SLEEPS}
while waited and time.monotonic() < until:
    for (name, rank), pid in [*waited.items()]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            ended[name][rank] = os.waitstatus_to_exitcode(status)
            del waited[name, rank]
    time.sleep(0.05)
found, status = os.waitpid(pids[SLEEPS], os.WNOHANG)
if found:
    ended[SLEEPS[0]][SLEEPS[1]] = os.waitstatus_to_exitcode(status)
    waited.pop(SLEEPS, None)
for pid in [*waited.values(), *([] if found else [pids[SLEEPS]])]:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(json.dumps(ended))
