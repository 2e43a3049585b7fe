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
    allowed = {str(result) for result in torch.serialization.get_safe_globals()}
    assert not [result for result in allowed if "linops" in result or "nameddim" in result]


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


W = torch.randn(3, 3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
LAZY = {
    "conjugate": W.conj(),
    "adjoint": W.mH,
    "negative": W.conj().imag,
    "Parameter": nn.Parameter(W.conj()),
}


def after_export(linop: nn.Module, x: torch.Tensor) -> torch.Tensor:
    stream = io.BytesIO()
    torch.export.save(torch.export.export(linop, (x,), strict=False), stream)
    stream.seek(0)
    y: torch.Tensor = torch.export.load(stream).module()(x)
    return y


@pytest.mark.filterwarnings("ignore:No complete tensor")  # torch, for a transposed weight
@pytest.mark.parametrize("kind", LAZY)
def test_weights_are_kept_as_other_programs_read_them(kind: str) -> None:
    weight, x = LAZY[kind].detach().clone(), torch.randn(3, dtype=W.dtype)
    A = Dense(LAZY[kind], ("M", "N"))
    assert not A.weight.is_conj() and not A.weight.is_neg()
    torch.testing.assert_close(A(x), weight.to(W.dtype) @ x)
    torch.testing.assert_close(after_export(A, x), A(x))
    if kind != "Parameter":
        A.weight = LAZY[kind]
    assert not A.state_dict()["weight"].is_conj() and not A.weight.is_neg()
    (other,) = A.with_weights(lambda weight: weight.detach().conj()).buffers()
    assert not other.is_conj() and torch.equal(other, A.weight.conj())


def test_a_weight_is_copied_only_if_it_is_a_lazy_conjugate() -> None:
    weight = W.mT[1:]
    assert Dense(weight).weight is weight
    parameter = nn.Parameter(W.conj())
    assert Dense(parameter).weight is parameter


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch, for a weight with a history
def test_a_conjugate_of_a_tensor_that_trains_follows_it_and_is_not_exported() -> None:
    leaf, x = W[0].clone().requires_grad_(), torch.randn(3, dtype=W.dtype)
    A = Diagonal(leaf.conj(), ("N",))
    for _ in range(2):
        (gradient,) = torch.autograd.grad(A(x).abs().square().sum(), leaf)
        torch.testing.assert_close(gradient, 2 * leaf * x.abs() ** 2)
        with torch.no_grad():
            leaf.mul_(2)
    for state in (A.state_dict(), A.state_dict(keep_vars=True)):
        assert not state["weight"].is_conj() and torch.equal(state["weight"], leaf.conj())
    for linop in (A, A.conj()):
        with pytest.raises(ValueError, match=r"to be exported, .*weight must not be a lazy conj"):
            after_export(linop, x)
