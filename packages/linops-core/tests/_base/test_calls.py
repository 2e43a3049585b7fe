"""Calls and constructors with what people give in their first week, and the memory of calls.

Errors say what to do. Memory that was freed is kept for what is computed next.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from linops_core import (
    FFT,
    ArrayToBlocks,
    Convolution,
    Dense,
    Diagonal,
    FourierShift,
    Interpolate,
    NamedLinop,
    Sampling,
)
from linops_core._base import _calls
from linops_core._base._calls import keep_freed
from linops_core.siblings import is_unitary
from nameddim import NamedShape


@pytest.mark.parametrize("wrap", [lambda A: A, lambda A: 2 * A, lambda A: A.N, lambda A: A + A])
def test_an_input_on_another_device_is_refused_by_the_name_of_the_operator(
    wrap: Callable[[NamedLinop], NamedLinop],
) -> None:
    A = wrap(Dense(torch.ones(2, 3), ("M", "N"), ("N",), ("M",)))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"Dense \(.*\): the input must be on .* weights, cpu, got one on meta"
        ):
            A(torch.empty(3, device="meta"))
        A(torch.ones(3))


def test_only_errors_of_torch_are_explained() -> None:
    class Broken(NamedLinop):
        @staticmethod
        def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
            raise RuntimeError("broken by itself")

    with pytest.raises(RuntimeError, match=r"^broken by itself"):
        Broken(NamedShape(("N",)))(torch.ones(2))
    with pytest.raises(
        TypeError, match=r"FFT .* must be a dense tensor, got .*sparse_coo; .*to_dense"
    ):
        FFT(1, centered=True)(torch.ones(3).to_sparse())


ARRAY: Any = np.ones((2, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dense(ARRAY, ("M", "N"), ("N",), ("M",)),
        lambda: Diagonal(ARRAY, ("M", "N")),
        lambda: Convolution(ARRAY),
        lambda: Interpolate(ARRAY, (4, 4)),
        lambda: Sampling.from_mask(ARRAY),
        lambda: Sampling([ARRAY[0]], (4,)),
        lambda: Sampling([ARRAY.tolist()], (4,)),
        lambda: ArrayToBlocks((4,), (2,), (2,), mask=ARRAY),
        lambda: Diagonal(torch.ones(2), ("N",)).solve_shifted(ARRAY, 1.0),
    ],
)
def test_arrays_and_lists_are_refused_with_the_way_to_make_them_tensors(
    make: Callable[[], object],
) -> None:
    with pytest.raises(
        TypeError, match=r"must be .*ensors?.*, got <class .*; make it one by torch\.as_tensor"
    ):
        make()


def test_other_objects_and_numbers_are_refused_by_their_kind() -> None:
    with pytest.raises(TypeError, match=r"weight must be a torch\.Tensor, got <class 'NoneType'>$"):
        Diagonal(None, ("N",))  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"the locations must be a tensor of real .*, got torch\.int64$"
    ):
        Interpolate(torch.ones(2, 1, dtype=torch.int64), (4,))


def test_an_operator_without_adjoint_is_not_known_to_be_unitary() -> None:
    class OneWay(NamedLinop):
        @staticmethod
        def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
            return x

    A = OneWay(NamedShape(("N",)))
    assert is_unitary(FourierShift(("N",), [1.5], shape=("N",)))
    assert not is_unitary(A) and not is_unitary(FourierShift(("N",), [1.5], shape=("N",)) @ A)


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
