import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from functools import reduce
from operator import add
from threading import Thread
from typing import Any, cast

import numpy as np
import pytest
import torch

from linops_core import Add, Chain, Concat, Dense, Diagonal, NamedLinop, RealForm, Scalar, Stack
from memmap import memory_aware_deepcopy
from memmap._modules._traverse import path_text, traverse
from nameddim import ND, NamedDimension


def test_the_operands_are_submodules_in_their_order() -> None:
    A, B = Scalar(2.0, ("N",)), Diagonal(torch.ones(3), ("N",))
    whole = Chain(A, B, name="both")
    assert whole.linops == (A, B)
    assert dict(whole.named_children()) == {"0": A, "1": B}
    assert whole.name == "both"
    assert list(whole.state_dict()) == ["1.weight"]


def test_dimensions_inside_of_a_composition_are_its_dimensions() -> None:
    A = Chain(Dense(torch.ones(2, 3)), Dense(torch.ones(4, 2), ("K", "M"), ("M",), ("K",)))
    assert A.dims == {"N", "M", "K"}
    assert {str(dim): A.size(dim) for dim in A.dims} == {"N": 3, "M": 2, "K": 4}
    assert A.size("Q") is None


def test_a_thread_never_sees_some_of_the_dimensions_only() -> None:
    """While one thread lists the dimensions of the operands, another one asks, too."""
    found, whole = list[frozenset[str]](), list[NamedLinop]()

    class Asked(Dense):
        @property
        def dims(self) -> frozenset[NamedDimension]:
            if whole:
                A = whole.pop()
                thread = Thread(target=lambda: found.append(A.dims))
                thread.start()
                thread.join()
            return super().dims

    first, then = Asked(torch.ones(2, 3)), Dense(torch.ones(4, 2), ("K", "M"), ("M",), ("K",))
    A = Chain(first, then)
    vars(A)["_memos"].clear()
    whole.append(A)
    assert A.dims == {"N", "M", "K"} and found == [A.dims]


def test_renaming_reaches_all_operands_at_once() -> None:
    A = Chain(Dense(torch.ones(2, 3)), Dense(torch.ones(4, 2), ("K", "M"), ("M",), ("K",)))
    other = A.renamed({ND("N"): ND("K"), ND("K"): ND("N"), ND("M"): ND("L")})
    assert isinstance(other, Chain)
    assert (other.ishape, other.linops[0].oshape, other.oshape) == (("K",), ("L",), ("N",))
    assert A.renamed({ND("Q"): ND("R")}) is A


def test_other_operands_keep_the_kind_of_composition() -> None:
    A = Add(Scalar(1.0, ("N",)), Scalar(2.0, ("N",)))
    other = A.with_operands([Scalar(5.0, ("N",))])
    assert type(other) is Add
    assert torch.equal(other(torch.ones(2)), torch.full((2,), 5.0))
    assert torch.equal(A(torch.ones(2)), torch.full((2,), 3.0))


def test_the_tree_is_printed() -> None:
    A = Chain(Diagonal(torch.ones(3), ("N",)), Add(Scalar(1.0), Scalar(2.0)), name="A")
    assert repr(A).splitlines() == [
        "A (N) -> (N)  12 B",
        "  Diagonal (N) -> (N)  weight: float32 (3,) cpu 12 B",
        "  Add (N) -> (N)",
        "    Scalar (N) -> (N)  weight: 1.0",
        "    Scalar (N) -> (N)  weight: 2.0",
    ]


def test_a_module_that_is_attached_is_no_operand() -> None:
    chain = Chain(Diagonal(torch.tensor([1.0, 2.0]), ("N",)), Scalar(2.0, ("N",)))
    chain.extra = torch.nn.ReLU()
    assert len(chain.linops) == 2
    assert torch.equal(chain(-torch.ones(2)), torch.tensor([-2.0, -4.0]))


def test_an_operand_that_is_used_twice_is_shown_twice() -> None:
    diagonal = Diagonal(torch.ones(2), ("N",))
    assert repr(Chain(diagonal, diagonal)).count("Diagonal") == 2


def two() -> list[NamedLinop]:
    return [Diagonal(torch.ones(3), ("N",)), Scalar(2.0, ("N",))]


@pytest.mark.parametrize(
    "composed",
    [
        Chain,
        Add,
        lambda *ops: Concat(*ops, idim="N", odim="N", isizes=[3, 3], osizes=[3, 3]),
        lambda *ops: Stack(*ops, odim_and_idx=("K", 0)),
    ],
)
def test_operands_are_counted_indexed_and_gone_through(composed: Any) -> None:
    operands = two()
    A = composed(*operands)
    assert len(A) == 2 and bool(A)
    assert [*A] == operands == [A[0], A[1]] == [A[-2], A[np.int64(-1)]]
    assert A.linops == tuple(operands)
    for part in (A[1:], A[-1:], A[1::2]):
        assert type(part) is type(A) and part.linops == (operands[1],)
        torch.testing.assert_close(part(part.H(part(x := torch.ones(3)))), part(part.N(x)))
    x = torch.ones(A.size("N") or 3)
    torch.testing.assert_close(A[:](x), A(x))
    with pytest.raises(IndexError, match=r"a slice must have at least one of 2 operands, got"):
        A[2:]


def test_slices_of_what_is_made_otherwise_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be one of a chain, .* got one of RealForm; A\.lin"):
        RealForm(two()[0])[:1]


def test_a_chain_goes_from_the_first_operator_applied_to_the_last() -> None:
    A, B = two()
    BA = B @ A
    assert isinstance(BA, Chain)
    assert [*BA] == [A, B]
    assert [part.name for part in cast(Chain, BA.H)] == ["Scalar", "Diagonal"]


def test_what_is_no_index_of_an_operand_is_refused() -> None:
    A = Chain(*two())
    with pytest.raises(IndexError, match=r"Chain \(N\) -> \(N\): the index .* below 2, .* got 2$"):
        A[2]
    with pytest.raises(TypeError, match=r"must be an integer or a slice, got 'N'; to cut a dim"):
        A["N"]  # type: ignore[call-overload]  # that is the test


def parts_of(n: int) -> list[NamedLinop]:
    return [Diagonal(torch.tensor([i + 1.0, 2.0]), ("N",)) for i in range(n)]


def paths(A: NamedLinop) -> list[str]:
    return [path_text(result.path) for result in traverse(A).tensors]


def with_module(A: Any, name: str, module: torch.nn.Module) -> Any:
    setattr(A, name, module)
    return A


x = torch.tensor([1.0, 3.0])
LOOKS: dict[str, Callable[[Any], object]] = {
    "number": len,
    "operand": lambda A: A[1](x),
    "repr": repr,
    "state": lambda A: list(A.state_dict()),
    "children": lambda A: [name for name, _ in A.named_children()],
    "submodule": lambda A: A.get_submodule("2")(x),
    "call": lambda A: A(x),
    "adjoint": lambda A: A.H(x),
    "normal": lambda A: A.N(x),
    "tile": lambda A: A.split(A, {"N": slice(1, 2)})(x[1:]),
    "facts": lambda A: (A.dims, A.sizes("input"), A.role("N"), A.linked_positions()),
    "copy": lambda A: copy.copy(A)(x),
    "deep copy": lambda A: copy.deepcopy(A)(x),
    "memory-aware copy": lambda A: memory_aware_deepcopy(A)(x),
    "pickle": lambda A: pickle.loads(pickle.dumps(A))(x),
    "paths of tensors": paths,
    "precision": lambda A: A.double()(x.double()),
    "operand replaced": lambda A: with_module(A, "0", parts_of(9)[-1])(x),
    "module attached": lambda A: len(with_module(A, "more", torch.nn.ReLU())),
    "no such attribute": lambda A: hasattr(A, "no_such_attribute"),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize(("sign", "cls"), [(add, Add), (lambda A, B: B @ A, Chain)])
@pytest.mark.parametrize("is_left", [True, False])
def test_a_composition_that_is_made_one_by_one_is_that_of_all_at_once(
    look: Callable[[Any], object], sign: Any, cls: type[Add | Chain], is_left: bool
) -> None:
    if is_left:
        nest = reduce(sign, parts_of(4))
    else:
        nest = reduce(lambda A, B: sign(B, A), parts_of(4)[::-1])
    assert type(nest) is cls
    assert str(look(nest)) == str(look(cls(*parts_of(4))))
    assert torch.equal(nest.linops[-1](x), parts_of(9)[3](x))


def test_a_sum_that_is_made_one_by_one_keeps_no_other_sums() -> None:
    shorter = parts_of(1)[0] + parts_of(1)[0]
    alive = weakref.ref(shorter)
    whole = shorter + parts_of(1)[0]
    del shorter
    gc.collect()
    assert alive() is None
    assert len(cast(Add, whole)) == 3


def test_an_operand_that_is_replaced_brings_its_lengths_and_names() -> None:
    A = Chain(Dense(torch.ones(2, 3)), Dense(torch.ones(2, 2), ("K", "M")))
    assert A.sizes("input") == (3,) and A.dims == {"N", "M", "K"}
    setattr(A, "0", Chain(Dense(torch.ones(2, 5), ("L", "N")), Dense(torch.ones(2, 2), ("M", "L"))))
    assert A.sizes("input") == (5,) and A.dims == {"N", "L", "M", "K"}
    assert A(torch.ones(5)).tolist() == [20.0, 20.0]
