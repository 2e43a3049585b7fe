"""Values that are kept: with an operator, for tensors, in a call."""

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from linops_core import Cache, Diagonal, NamedLinop, Sampling
from linops_core._base._copying import linked_copy
from linops_core._kept import Kept, Memo, made_once_per_call, one_call
from linops_core._kernels._changes import TensorState
from nameddim import ND


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


class Squares(Cache):
    """A cache of a user, which does not look for changes."""

    square: Tensor | None = None


class Weighted(Diagonal):
    """Multiplies by the square of the weight, which is computed once."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(weight, ("N",))
        self._squares = Squares()

    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        if linop._squares.square is None:
            linop._squares.square = linop.weight**2
        y: Tensor = linop._squares.square * x
        return y

    adj_fn = fn


def constant(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: weight


def test_a_memo_is_of_one_operator_and_those_that_share_all_its_attributes() -> None:
    first, own = Memo[list[int]](), Memo[list[int]](is_own=True)
    A = Diagonal(tensor(1, 2), ("N",))
    kept = first.get_or_make(A, list)
    assert first.get_or_make(A, list) is first.get(A) is kept
    assert own.get(A) is None and own.keep(A, [1]) == [1] == own.get(A)
    other = linked_copy(A)
    assert first.get(other) is kept and own.get(other) is None
    others = [copy.copy(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A))]
    assert all(
        first.get(linop) is None for linop in (A**2.5, A.with_weights(Tensor.clone), *others)
    )
    own.forget(A)
    assert own.get(A) is None


def test_a_value_is_kept_until_a_tensor_changes_one_for_each_key() -> None:
    kept, weight, made = Kept[int](), tensor(1, 2), list[int]()

    def make() -> int:
        made.append(0)
        return len(made)

    assert [kept.get_or_make([weight], key, make) for key in "aabba"] == [1, 1, 2, 2, 1]
    assert (kept.get([weight], "b"), kept.get([weight.clone()], "b")) == (2, None)
    weight.mul_(2)
    assert kept.get([weight], "a") is None and kept.get_or_make([weight], "a", make) == 3
    assert kept.get([weight], "b") is None
    only = Kept[int](is_only=True)
    assert [only.get_or_make([weight], key, make) for key in "aba"] == [4, 5, 6]


def test_a_value_that_another_thread_makes_meanwhile_is_not_returned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies on the same memory share one, and may run on several threads."""
    kept, first, second = Kept[int](is_only=True), tensor(1), tensor(2)
    assert kept.get_or_make([first], None, lambda: 1) == 1
    is_current = TensorState.is_current

    def replaced_meanwhile(state: TensorState, *tensors: Tensor) -> bool:
        result = is_current(state, *tensors)
        monkeypatch.setattr(TensorState, "is_current", is_current)
        kept.get_or_make([second], None, lambda: 2)
        return result

    monkeypatch.setattr(TensorState, "is_current", replaced_meanwhile)
    assert kept.get([first], None) == 1
    assert kept.get([second], None) == 2


def test_what_cannot_be_made_is_not_kept() -> None:
    kept, weight = Kept[int](), tensor(1)

    def refuse() -> int:
        raise ValueError("refused")

    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            kept.get_or_make([weight], None, refuse)


COPIES: dict[str, Callable[[NamedLinop], NamedLinop]] = {
    "shallow": copy.copy,
    "deep": copy.deepcopy,
    "pickle": lambda linop: pickle.loads(pickle.dumps(linop)),
    "with_weights": lambda linop: linop.with_weights(Tensor.clone),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_with_other_tensors_sees_no_value_of_the_old_ones(way: str) -> None:
    A, x = Weighted(tensor(2, 3)), tensor(1, 1)
    assert A(x).tolist() == [4, 9]
    other = COPIES[way](A)
    with torch.no_grad():
        for weight in other.buffers():
            weight.add_(1)
    assert other(x).tolist() == ([9, 16]) == other.H(x).tolist()


def test_copies_with_the_same_tensors_share_a_cache_that_is_freed_with_them() -> None:
    A, one, two = Weighted(tensor(2, 3)), tensor(4, 5), tensor(6, 7)
    copies = [A.with_weights(constant(weight)) for weight in (one, one, two)]
    caches = [vars(linop)["_squares"] for linop in (A, *copies)]
    assert caches[1] is caches[2] and len({*map(id, caches)}) == 3
    assert caches[1] is vars(copies[0].H)["_squares"]
    freed = weakref.ref(caches[1])
    del caches, copies
    gc.collect()
    assert freed() is None


def test_tiles_of_one_mask_share_its_counts_also_on_copies() -> None:
    """Each would take a grid of memory."""
    A = Sampling([torch.tensor([0, 2, 2, 1])], [3], ("K",), ("Kx",), ("C",))
    whole, piece = {ND("C"): slice(0, 1)}, {ND("K"): slice(0, 2)}
    tiles = [A.split(A, window) for window in (whole, whole, piece)]
    caches = {id(vars(tile)["_counted"]) for tile in tiles}
    assert caches == {id(vars(A)["_counted"])}
    copies = [tile.with_weights(lambda idx: idx) for tile in tiles]
    assert len({id(vars(tile)["_counted"]) for tile in copies}) == 1
    sent = A.idx[0].clone()
    elsewhere = [A.with_weights(constant(sent)) for _ in range(2)]
    result = {id(vars(tile)["_counted"]) for tile in elsewhere}
    assert len(result) == 1 and not result & caches
    x = torch.ones(1, 3)
    for linop, counts in zip((*tiles, *copies), 2 * [[1, 1, 2], [1, 1, 2], [1, 0, 1]], strict=True):
        assert linop.N(x).tolist() == [counts]


def test_indices_are_checked_once_by_an_operator_and_its_relatives() -> None:
    A = Sampling([torch.tensor([0, 2])], [3])
    facts, x = vars(A.H)["_idx_facts"], torch.ones(3)
    A(x)
    assert facts.get(A.idx, "fit") is True and facts.get(A.idx, "crowded") is None
    A.H(A(x))
    assert facts.get(A.idx, "crowded") is False
    A.idx[0][0] = 3
    assert facts.get(A.idx, "fit") is None
    with pytest.raises(ValueError, match="from 0 to 2, got 2 to 3"):
        A.H(torch.ones(2))


def test_what_is_shared_is_made_once_a_call() -> None:
    made: list[str] = []

    def make(name: str) -> list[str]:
        made.append(name)
        return [name]

    for _ in range(2):
        with one_call():
            first = made_once_per_call("a", lambda: make("a"))
            assert made_once_per_call("a", lambda: make("a")) is first == ["a"]
            assert made_once_per_call("b", lambda: make("b")) == ["b"]
    assert made == ["a", "b"] * 2


def test_a_call_inside_of_a_call_is_part_of_it() -> None:
    with one_call():
        first: object = made_once_per_call("a", list)
        with one_call():
            assert made_once_per_call("a", list) is first
        assert made_once_per_call("a", list) is first


def test_outside_of_a_call_nothing_is_kept() -> None:
    assert made_once_per_call("a", list) is not made_once_per_call("a", list)
    with pytest.raises(KeyError), one_call():
        raise KeyError
    assert made_once_per_call("a", list) is not made_once_per_call("a", list)


def test_each_thread_has_its_own() -> None:
    results: list[object] = []
    with one_call():
        first: object = made_once_per_call("a", list)
        thread = threading.Thread(target=lambda: results.append(made_once_per_call("a", list)))
        thread.start()
        thread.join()
        assert results == [[]] and results[0] is not first
