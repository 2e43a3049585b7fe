"""Memory that was freed is kept for what is computed next."""

import os
import platform
import subprocess
import sys

import pytest
import torch

from linops_core import Diagonal
from linops_core._base import _calls
from linops_core._base._calls import keep_freed

ONE_MIB = 2**18  # of float32

PAGES_OF_STEPS = f"""
import resource, sys, torch
from linops_core import Diagonal

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

torch.set_num_threads(1)
x, weight = torch.ones({ONE_MIB}), torch.ones({ONE_MIB})
D = Diagonal(weight, ("N",))
step = D if sys.argv[1] == "operator" else weight.mul

def several():
    kept = [step(x)]
    for _ in range(5):
        kept.append(step(kept[-1]))

for _ in range(3):
    several()
before = pages()
for _ in range(5):
    several()
print(pages() - before)
"""


def new_pages(way: str, **variables: str) -> int:
    """Return how many pages the system hands out in 30 products of 256 pages each."""
    others = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC")}
    others.pop("GLIBC_TUNABLES", None)
    result = subprocess.run(
        [sys.executable, "-c", PAGES_OF_STEPS, way],
        env={**others, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(result.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about the memory of glibc")
def test_an_operator_gets_no_new_pages_from_the_system() -> None:
    # Where blocks lie is random: without a higher limit, some processes keep them as well.
    assert max(new_pages("operator") for _ in range(2)) < 2 * 256  # of 30 * 256


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about the memory of glibc")
def test_a_limit_that_the_user_has_set_stays() -> None:
    assert new_pages("operator", MALLOC_MMAP_THRESHOLD_="65536") > 10 * 256


def test_what_is_asked_for_grows_with_the_tensors_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_calls, "_kept", 0)
    keep_freed(torch.empty(5, device="meta"))
    assert _calls._kept == 0
    keep_freed(torch.ones(1000), torch.ones(10))
    assert _calls._kept == 16000
    keep_freed(torch.ones(10))
    assert _calls._kept == 16000
    keep_freed(torch.empty(2**23))
    assert _calls._kept == _calls._LONGEST < 2**25


def test_a_call_with_a_new_shape_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_calls, "_kept", 0)
    D = Diagonal(torch.ones(100), ("N",))
    D(torch.ones(100))
    assert _calls._kept == 1600
    _calls._kept = 0
    D(torch.ones(100))
    assert _calls._kept == 0
