"""Which method NUFFT takes."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Interpolate
from linops_imaging import NUFFT, toeplitz_kernel
from linops_imaging._non_uniform import _finufft
from linops_imaging._non_uniform._gridded import ByInterpolation
from linops_imaging._non_uniform._method import NufftRequest
from linops_imaging._non_uniform._methods import METHODS
from linops_imaging._non_uniform._toeplitz import Phases

pytest.importorskip("finufft")


def method_of(*sizes: int, n: int = 5000, batch: tuple[str, ...] = ("C",), **options: Any) -> str:
    locs = torch.zeros(n, len(sizes))
    A = NUFFT(locs, sizes, ("K",), batch_shape=batch, **{"tol": 1e-2, **options})
    assert f" {A.method}, error of entries up to" in repr(A)
    assert A.H.method == A.method
    return A.method


def test_a_table_is_for_coils_in_one_and_two_dimensions() -> None:
    assert method_of(64, 64) == method_of(256) == "table"
    assert method_of(4, 4, 4) == "finufft"
    assert method_of(64, 64, batch=()) == method_of(64, 64, batch=("...",)) == "finufft"
    assert method_of(64, 64, toeplitz=True) == "finufft"
    for tol, method in ((1e-4, "table"), (1e-5, "table"), (9e-6, "finufft")):
        assert method_of(64, 64, tol=tol) == method  # a smaller tol is for double precision
    assert method_of(64, 64, table_budget=9) == "finufft"


def test_frames_are_not_images_of_the_same_locations() -> None:
    locs = torch.zeros(3, 5000, 2)
    for batch, method in ((("T",), "finufft"), (("C", "T"), "table")):
        assert NUFFT(locs, (64, 64), ("T", "K"), batch_shape=batch, tol=1e-2).method == method


def test_what_finufft_cannot_do_is_left_to_others() -> None:
    assert method_of(4, 4, 4, tol=None, width=5.0) == "table"
    assert method_of(4, 4, 4, tol=None, width=5.0, table_budget=9) == "interpolate"


def test_locations_with_gradients_have_no_table() -> None:
    locs = torch.zeros(5000, 2, requires_grad=True)
    assert NUFFT(locs, (64, 64), ("K",), batch_shape=("C",), tol=1e-2).method == "finufft"


def test_without_the_library_the_error_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "finufft", None)
    assert method_of(4, 4, 4) == "table"
    assert method_of(4, 4, 4, table_budget=9) == "interpolate"
    assert method_of(64, 64, batch=()) == "table"


def test_finufft_keeps_a_tol_that_a_table_does_not() -> None:
    assert method_of(65536, tol=1e-5, batch=()) == "finufft"


@pytest.mark.parametrize("is_there", [True, False])
def test_on_other_devices_a_table_is_taken_if_there_is_one(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_finufft, "is_installed", lambda _: is_there)
    locs = torch.zeros(9, 3, device="meta")
    assert NUFFT(locs, (4, 4, 4), ("K",)).method == "table"
    without = NUFFT(locs, (4, 4, 4), ("K",), table_budget=9)
    assert without.method == ("finufft" if is_there else "interpolate")


def test_a_further_method_is_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(ByInterpolation):
        name = "mine"
        chooses_grid = True

        def rank(self, request: NufftRequest) -> int:
            return -1

        def note(self, interpolate: Interpolate) -> str:
            return self.name

        def adjoint(self, request: NufftRequest) -> Callable[[Phases], Tensor] | None:
            kernels.append(request.sizes)
            return super().adjoint(request)

    kernels: list[tuple[int, ...]] = []
    monkeypatch.setitem(METHODS, "mine", Mine())
    assert method_of(64, 64) == method_of(64, 64, method="mine") == "mine"
    assert method_of(64, 64, tol=None, width=5.0) == "table"
    toeplitz_kernel(NUFFT(torch.zeros(5, 1), (8,), ("K",)))
    assert kernels == [(8,)]
    with pytest.raises(ValueError, match='method="mine" must be given without oversamp and width'):
        method_of(64, 64, method="mine", tol=None, width=5.0)
    with pytest.raises(ValueError, match=r"method must be one of .*'mine'.*, got 'yours'"):
        method_of(64, 64, method="yours")


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_do_not_choose_the_method(n_threads: int) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(n_threads)
        assert (method_of(64, 64), method_of(64, 64, batch=())) == ("table", "finufft")
    finally:
        torch.set_num_threads(threads)
