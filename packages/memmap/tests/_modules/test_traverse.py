import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest
import torch

from memmap import NonLeafError, memory_aware_deepcopy, overlaps
from memmap._modules._traverse import path_text, traverse

Pair = namedtuple("Pair", "first second")


class Items(list[Any]):
    """A list of one's own."""


class Table(dict[Any, Any]):
    """A dictionary of one's own."""


class Built:
    """Made anew from what its constructor was given."""

    def __init__(self, weight: Any, rest: Any) -> None:
        self.weight = weight
        self.count = len(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Built, (self.weight, [torch.zeros(1)])


@dataclasses.dataclass(slots=True)
class Slotted:
    value: Any


def paths_in(value: object) -> list[str]:
    module: Any = torch.nn.Module()
    module.x = value
    return [path_text(result.path) for result in traverse(module).tensors]


def zeros() -> torch.Tensor:
    return torch.zeros(1)


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (zeros(), ["x"]),
        ([zeros(), (zeros(),)], ["x[0]", "x[1][0]"]),
        ({"a": zeros()}, ["x['a']"]),
        (OrderedDict(a=zeros()), ["x['a']"]),
        (defaultdict(list, a=[zeros()]), ["x['a'][0]"]),
        (deque([zeros()]), ["x[0]"]),
        (Items([zeros()]), ["x[0]"]),
        (Table(a=zeros()), ["x['a']"]),
        (Pair(zeros(), [zeros()]), ["x[0]", "x[1][0]"]),
        (Slotted(zeros()), ["x.value"]),
        (functools.partial(print, zeros(), k=zeros()), ["x.args[0]", "x.keywords['k']"]),
        (Built(zeros(), [1]), ["x.weight", "x.<argument 1>[0]"]),
        (iter([zeros()]), ["x.<argument 0>[0]"]),
    ],
)
def test_paths_read_as_one_would_write_them(value: object, paths: list[str]) -> None:
    assert paths_in(value) == paths


class Chain:
    """A chain of objects; the state of each is a list that exists only for a moment."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return Chain, (0,), [torch.ones(self.n), *([Chain(self.n - 1)] if self.n > 1 else [])]


def test_states_that_exist_only_for_a_moment_are_all_opened() -> None:
    """Their ids may be used again, so the walk keeps them."""
    sizes = [item.tensor.numel() for item in traverse(Chain(30)).tensors]
    assert sizes == [*range(30, 0, -1)]


def test_items_of_lists_and_dictionaries_of_ones_own_stay_related() -> None:
    flat = torch.arange(10.0)
    module: Any = torch.nn.Module()
    module.items = Items([torch.nn.Parameter(flat[:6])])
    module.table = Table(a=torch.nn.Parameter(flat[4:]))
    del flat
    made = memory_aware_deepcopy(module)
    first, second = made.items[0], made.table["a"]
    assert type(made.items) is Items and type(made.table) is Table
    assert overlaps(first, second) and second.tolist() == [4, 5, 6, 7, 8, 9]


def test_tensors_in_slots_of_tensors_stay_related() -> None:
    class Scaled(torch.Tensor):
        __slots__ = ("scale",)
        scale: torch.Tensor

    flat = torch.arange(10.0)
    scaled = flat[:6].as_subclass(Scaled)
    scaled.scale = flat[4:].data
    module: Any = torch.nn.Module()
    module.scaled = scaled
    del flat, scaled
    made = memory_aware_deepcopy(module).scaled
    assert type(made) is Scaled and overlaps(made, made.scale)


def test_the_path_of_a_tensor_with_a_history_in_a_partial_call() -> None:
    weight = torch.ones(2, requires_grad=True) * 2
    module: Any = torch.nn.Module()
    module.call = functools.partial(torch.mul, weight)
    with pytest.raises(NonLeafError, match=r"^call\.args\[0\]: a tensor to be copied must be a"):
        memory_aware_deepcopy(module)


def test_tensors_as_keys_are_named_by_their_number_and_not_printed() -> None:
    module = torch.nn.Module()
    key = torch.nn.Parameter(torch.zeros(2))
    module.state = {key: {"step": 2 * key}}  # type: ignore[assignment]  # not a tensor or module
    with pytest.raises(NonLeafError, match=r"^state\[key 0\]\['step'\]: a tensor to be copied"):
        memory_aware_deepcopy(module)
