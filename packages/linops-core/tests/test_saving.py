import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from linops_core import Chain, Dense, Diagonal, SimpleLinop, safe_globals


def n_bytes_saved(value: object) -> int:
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getbuffer().nbytes


def test_many_views_of_one_weight_are_saved_once() -> None:
    flat = torch.randn(100_000)
    halves = [Diagonal(half, ("N",)) for half in (flat[:60_000], flat[40_000:])]
    A = Chain(*halves, *halves)
    for value in (A, A.N, A.state_dict(), A.N.state_dict()):
        assert n_bytes_saved(value) < 1.1 * 400_000


def test_saved_views_are_views_again(tmp_path: Path) -> None:
    flat = torch.randn(10)
    A = Chain(Diagonal(flat[:6], ("N",)), Diagonal(flat[4:], ("N",)))
    torch.save(A, tmp_path / "A.pt")
    first, second = torch.load(tmp_path / "A.pt", weights_only=False).buffers()
    first.zero_()
    assert second[:2].tolist() == [0, 0] and second[2:].all()


def test_a_parameter_that_is_used_twice_is_one_parameter_again(tmp_path: Path) -> None:
    weight = nn.Parameter(torch.randn(3, 3))
    A = Chain(Dense(weight), Dense(weight, ("K", "M"), ("M",), ("K",)))
    torch.save(A.N, tmp_path / "N.pt")
    N = torch.load(tmp_path / "N.pt", weights_only=False)
    assert len(list(N.parameters())) == 1
    x = torch.randn(3)
    assert torch.equal(N(x), A.N(x))


def test_a_state_dict_is_read_back_without_running_code(tmp_path: Path) -> None:
    A = Dense(torch.randn(2, 3)) @ Diagonal(torch.randn(3), ("N",))
    torch.save(A.state_dict(), tmp_path / "A.pt")
    B = Dense(torch.zeros(2, 3)) @ Diagonal(torch.zeros(3), ("N",))
    normal = B.N
    B.load_state_dict(torch.load(tmp_path / "A.pt", weights_only=True))
    x = torch.randn(3)
    assert torch.equal(normal(x), A.N(x))


class Doubled(Diagonal):
    """An operator of a user."""


class Calls:
    """A value whose pickle calls a function."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.getpid, ()


def loaded(value: object, *packages: str) -> Any:
    stream = io.BytesIO()
    torch.save(value, stream)
    stream.seek(0)
    with torch.serialization.safe_globals(safe_globals(*packages)):
        return torch.load(stream, weights_only=True)


def test_safe_globals_are_classes_and_importing_allows_none() -> None:
    assert all(isinstance(cls, type) for cls in safe_globals())
    allowed = {str(found) for found in torch.serialization.get_safe_globals()}
    assert not [found for found in allowed if "linops" in found or "nameddim" in found]


def test_operators_of_others_are_allowed_by_their_package() -> None:
    A = Doubled(torch.ones(2), ("N",))
    with pytest.raises(pickle.UnpicklingError, match=r"Unsupported global.*Doubled"):
        loaded(A)
    assert type(loaded(A, __name__.split(".")[0])) is Doubled


def test_a_file_that_calls_a_function_is_refused() -> None:
    A = Diagonal(torch.ones(2), ("N",))
    A.note = Calls()
    with pytest.raises(pickle.UnpicklingError, match="getpid"):
        loaded(A)


def test_only_the_methods_that_an_adjoint_swaps_are_looked_up_by_name() -> None:
    A = Diagonal(torch.ones(2), ("N",))
    state = A.H.__reduce__()[2]
    assert state["fn"] == "adj_fn" and state["adj_fn"] == "fn"
    B = Diagonal.__new__(Diagonal)
    B.__setstate__({**state, "fn": "__init__"})
    assert vars(B)["fn"] == "__init__"


def test_a_function_without_a_name_is_not_saved() -> None:
    A = SimpleLinop(lambda x: x, lambda x: x)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        loaded(A)
