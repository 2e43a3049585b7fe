"""A reader who steps into a call of a small chain meets few files, and no plan of slices."""

import sys
from types import FrameType

import pytest
import torch
from torch import Tensor

from linops_core import FFT, Dense, Diagonal, NamedLinop, Sampling

MASK = torch.arange(16).view(4, 4) % 3 > 0
MAPS = torch.ones(2, 4, 4, dtype=torch.complex64)


def files_of_call(A: NamedLinop, x: Tensor) -> set[str]:
    """Return the modules of this package in which functions are called for A x."""
    result: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("linops_core"):
            result.add(name)

    sys.setprofile(note)
    try:
        A(x)
    finally:
        sys.setprofile(None)
    return result


@pytest.mark.parametrize(
    ("last", "n_first", "n_second"),
    [
        (None, 12, 10),
        (Diagonal(MASK.float(), ("Kx", "Ky")), 13, 11),
        (Sampling.from_mask(MASK), 16, 15),
    ],
    ids=["maps", "mask", "samples"],
)
def test_a_call_of_a_sense_chain_crosses_few_files(
    last: NamedLinop | None, n_first: int, n_second: int
) -> None:
    A = FFT(2) @ Dense(MAPS, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    A = A if last is None else last @ A
    x = torch.ones(4, 4, dtype=torch.complex64)
    assert len(files_of_call(A, x)) <= n_first
    assert len(files_of_call(A, x)) <= n_second
