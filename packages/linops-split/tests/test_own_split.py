"""Operators whose own ``split`` returns tiles with tensors of their own.

Shapes: M rows, N columns.
"""

import copy
import io
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from linops_core import Dense, Diagonal, Identity, NamedLinop, SplitError
from linops_core.siblings import own_window
from linops_split import batch_linop, plan_batches, split_linop
from linops_split.testing import assert_tiles_make_the_whole
from nameddim import ND, NamedDimension, NamedShape


class Matrix(NamedLinop):
    """A matrix; ``made`` makes the tile of a slice of its weight."""

    weight: Tensor

    def __init__(
        self, weight: Tensor, names: tuple[str, ...], made: Callable[..., NamedLinop] | None = None
    ) -> None:
        super().__init__(NamedShape(names[1:], names[:1], weight=names))
        if isinstance(weight, nn.Parameter):
            self.register_parameter("weight", weight)
        else:
            self.register_buffer("weight", weight)
        self.made = made or Matrix

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        return torch.mv(linop.weight, x)

    @staticmethod
    def adj_fn(linop: Any, x: Tensor, /) -> Tensor:
        return torch.mv(linop.weight.mH, x)

    def size(self, dim: NamedDimension | str) -> int | None:
        sizes = zip(self.shape.other_shapes["weight"], self.weight.shape, strict=True)
        return {str(name): size for name, size in sizes}.get(str(dim))

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        names, window = linop.shape.other_shapes["weight"], own_window(linop, tile)
        part = linop.weight[tuple(window.get(dim, slice(None)) for dim in names)]
        made: NamedLinop = linop.made(part, names)
        return made


def dense(weight: Tensor, names: tuple[str, ...]) -> NamedLinop:
    return Dense(weight, names, names[1:], names[:1])


def on_a_copy(weight: Tensor, names: tuple[str, ...]) -> NamedLinop:
    return Matrix(weight * 1, names)


def composed(weight: Tensor, names: tuple[str, ...]) -> NamedLinop:
    return 2 * dense(weight / 2, names)


KINDS: dict[str, Callable[..., NamedLinop]] = {  # functions with names, which can be pickled
    "views": Matrix,
    "copies": on_a_copy,
    "of the library": dense,
    "compositions": composed,
}


def matrix(kind: str = "views", seed: int = 0) -> Matrix:
    weight = torch.randn(
        4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128
    )
    return Matrix(nn.Parameter(weight), ("M", "N"), KINDS[kind])


def network(A: NamedLinop) -> NamedLinop:
    """Return the operator between others."""
    return (
        Diagonal(torch.arange(4.0), ("M",))
        @ (A + matrix("views", 1))
        @ Diagonal(nn.Parameter(torch.ones(5, dtype=torch.float64)), ("N",))
    )


sizes = st.fixed_dictionaries({"M": st.integers(1, 3), "N": st.integers(1, 5)})
operators = st.builds(
    lambda kind, wrap, side: side(wrap(matrix(kind))),
    st.sampled_from([*KINDS]),
    st.sampled_from([lambda A: A, network]),
    st.sampled_from([lambda A: A, lambda A: A.H, lambda A: A.N, lambda A: A.conj()]),
)


def vector(A: NamedLinop) -> Tensor:
    return torch.randn([n or 1 for n in A.sizes("input")], dtype=torch.complex128)


def check_equal(B: NamedLinop, A: NamedLinop) -> None:
    """Check that two operators have equal values, and gradients to equal weights."""
    x, y = vector(A).requires_grad_(), vector(A.H)
    torch.testing.assert_close(B(x), A(x))
    torch.testing.assert_close(B.H(y), A.H(y))
    result, wanted = (
        torch.autograd.grad(
            linop(x).abs().square().sum(), [x, *(w for w in linop.parameters() if w.requires_grad)]
        )
        for linop in (B, A)
    )
    torch.testing.assert_close(result, wanted)


@settings(max_examples=settings().max_examples // 3)
@given(operators, sizes)
def test_a_cut_operator_is_the_whole(A: NamedLinop, sizes: dict[str, int]) -> None:
    cut = {dim: n for dim, n in sizes.items() if dim in A.ishape or dim in A.oshape}
    assert_tiles_make_the_whole(A, cut)
    for B in (batch_linop(A, cut), batch_linop(batch_linop(A, cut), cut)):
        result, wanted = (linop.state_dict(keep_vars=True) for linop in (B, A))
        assert [*result] == [*wanted]
        assert all(result[name] is wanted[name] for name in wanted)
        assert [*nn.ModuleList([B]).state_dict()] == [f"0.{name}" for name in wanted]
        check_equal(B, A)


@given(operators, sizes, st.sampled_from(["load", "assign", "move", "cast", "copy", "file"]))
def test_tiles_follow_the_weights(A: NamedLinop, sizes: dict[str, int], way: str) -> None:
    B = batch_linop(A, {dim: n for dim, n in sizes.items() if dim in A.ishape + A.oshape})
    if way in ("copy", "file"):
        file = io.BytesIO()
        torch.save(B, file)
        file.seek(0)
        old = B
        B = torch.load(file, weights_only=False) if way == "file" else copy.deepcopy(B)
        check_equal(B, A)
        B.load_state_dict({name: 2 * t for name, t in A.state_dict().items()})
        check_equal(old, A)
        A = copy.deepcopy(A)
        A.load_state_dict(B.state_dict())
    elif way in ("load", "assign"):
        state = {name: t * 2 for name, t in A.state_dict().items()}
        A.load_state_dict(state, assign=way == "assign")
    elif way == "cast":
        B.to(torch.float32).to(torch.float64)
    else:
        result = functional_call(B, {name: 0 * t for name, t in B.named_parameters()}, vector(A))
        assert not result.any()
    check_equal(B, A)


def test_the_memory_of_a_replaced_weight_is_freed() -> None:
    A = matrix()
    B = batch_linop(A, {"M": 2})
    old = weakref.ref(A.weight)
    A.weight = nn.Parameter(torch.zeros(4, 5, dtype=torch.complex128))
    assert old() is None
    check_equal(B, A)


def test_tiles_that_are_made_without_gradients_train() -> None:
    A = matrix()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            B = batch_linop(A, {"M": 2})
        check_equal(B, A)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_single_tiles_and_of_transforms_reach_the_weight(kind: str) -> None:
    A, x = matrix(kind), torch.randn(5, dtype=torch.complex128)
    tiles, *_ = split_linop(A, {"M": 3})
    tiles[0](x), tiles[1](x)
    with torch.no_grad():
        assert torch.equal(torch.cat([tile(x) for tile in tiles]), A(x))
    (wanted,) = torch.autograd.grad(A(x).abs().square().sum(), [A.weight])
    loss = sum(tile(x).abs().square().sum() for tile in tiles)
    (result,) = torch.autograd.grad(loss, [A.weight])
    torch.testing.assert_close(result, wanted)

    def of_weight(weight: Tensor) -> Tensor:
        y: Tensor = functional_call(batch_linop(A, {"M": 3}), {"weight": weight}, x)
        return y.abs().square().sum()

    torch.testing.assert_close(torch.func.grad(of_weight)(A.weight.detach()), wanted)


def test_training_a_cut_operator_trains_the_whole() -> None:
    A, C = matrix(), matrix()
    B, x = batch_linop(A, {"M": 3, "N": 2}), vector(A)
    for linop in (B, C):
        for _ in range(3):
            (weight,) = linop.parameters()
            (gradient,) = torch.autograd.grad(linop(x).abs().square().sum(), [weight])
            with torch.no_grad():
                weight.sub_(0.01 * gradient)
    torch.testing.assert_close(A.weight, C.weight)


def test_names_and_batches_are_handed_on() -> None:
    A = matrix()
    names = {ND("N"): ND("K"), ND("M"): ND("L")}
    B = batch_linop(A, {"M": 3}).renamed(names)
    assert (*B.ishape, *B.oshape) == ("K", "L")
    check_equal(B, A)
    tiles, *_ = split_linop(A, {"M": 3})
    assert repr(tiles[0]).startswith("Matrix (N) -> (M)") and tiles[0].size("M") == 3
    assert tiles[0].resolved(("N",), ("M",)) is tiles[0] and tiles[0].fitted_to(("Q",)) is None


def alone(weight: Tensor, names: tuple[str, ...]) -> Matrix:
    return Matrix(nn.Parameter(weight), names)


def detached(weight: Tensor, names: tuple[str, ...]) -> Matrix:
    return Matrix(weight.detach(), names)


def buffer(weight: Tensor, names: tuple[str, ...]) -> Matrix:
    return Matrix(nn.Buffer(weight), names)


@pytest.mark.parametrize("made", [alone, detached, buffer])
def test_tiles_that_gradients_do_not_leave_are_refused(made: Callable[..., NamedLinop]) -> None:
    A = Matrix(matrix().weight, ("M", "N"), made)
    for linop in (A, A.H, A @ Identity(("N",))):
        with pytest.raises(SplitError, match=r"reach those of the operator, got weight without"):
            batch_linop(linop, {"M": 3})
    A.weight.requires_grad_(False)
    if made is not alone:
        check_equal(batch_linop(A, {"M": 3}), A)


def test_plans_run_tiles_without_data() -> None:
    A = matrix()
    peak = plan_batches(A, "1 MB", ["M"]).peak
    plan = plan_batches(A, peak - 1, ["M"])
    assert plan.batch_sizes and plan.peak < peak
