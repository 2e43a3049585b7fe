"""What classes say of how their instances are copied, and that nothing keeps them for it."""

import copyreg
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from memmap import MemoryReport, ModuleMemoryMap, memory_aware_deepcopy, memory_aware_to
from memmap._modules._classes import cached_by_class, has_plain_state


def own_class() -> torch.nn.Module:
    class Own(torch.nn.Linear):
        """Made anew by each call."""

    return Own(2, 2)


def parametrized() -> torch.nn.Module:
    return torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(2, 2))


def with_own_tensor() -> torch.nn.Module:
    class OwnTensor(torch.Tensor):
        """Made anew by each call."""

    module = torch.nn.Module()
    module.register_buffer("x", torch.zeros(2).as_subclass(OwnTensor))
    return module


LASTING = {torch.nn.Module, torch.Tensor}
USES: list[Callable[[torch.nn.Module], object]] = [
    memory_aware_deepcopy,
    lambda module: memory_aware_to(module, dtype=torch.float64, attributes=True),
    lambda module: ModuleMemoryMap().copy_to(module, "meta", detach=True),
    lambda module: MemoryReport(module),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [own_class, parametrized, with_own_tensor])
def test_a_class_dies_after_its_instances_were_used(
    make: Callable[[], torch.nn.Module], use: Callable[[torch.nn.Module], object]
) -> None:
    def classes_used() -> list[weakref.ref[type[Any]]]:
        module = make()
        use(module)
        of_tensors = {type(tensor) for tensor in module.buffers()}
        return [weakref.ref(cls) for cls in {type(module), *of_tensors} - LASTING]

    result = classes_used()
    gc.collect()
    assert result and not any(cls() for cls in result)


def test_the_answer_of_a_class_that_has_died_is_not_that_of_another() -> None:
    asked: list[str] = []

    def number(cls: type[Any]) -> int:
        asked.append(cls.__name__)
        return int(cls.__name__)

    question = cached_by_class(number)
    # The later ones get the places of the earlier ones.
    for numbers in (range(100), range(100, 200)):
        classes = [type(str(number), (), {}) for number in numbers]
        assert [question(cls) for cls in classes * 2] == [*numbers, *numbers]
        del classes
        gc.collect()
    assert asked == [str(number) for number in range(200)]


def test_a_reducer_that_is_registered_late_counts() -> None:
    class Point:
        """Has no state but its dictionary."""

    assert has_plain_state(Point)
    copyreg.pickle(Point, lambda point: (Point, ()))
    try:
        assert not has_plain_state(Point)
    finally:
        del copyreg.dispatch_table[Point]
    assert has_plain_state(Point)
