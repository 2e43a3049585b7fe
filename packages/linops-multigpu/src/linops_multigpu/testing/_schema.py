"""What an operator does with its arguments, as far as its schema says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves


def written_by(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that ``op`` writes to."""
    found = []
    for argument, value in _given(op, args, kwargs):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += tensors_in(value)
    return found


def tensors_in(values: Any) -> list[Tensor]:
    """Return all tensors in nested lists, tuples and dictionaries."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def returns_tensors(op: OpOverload) -> bool:
    """Whether there is a tensor in what ``op`` returns, or it returns nothing."""
    kinds = [str(returned.type) for returned in op._schema.returns]
    return not kinds or any("Tensor" in kind for kind in kinds)


def waits_for_values(op: OpOverload) -> bool:
    """Whether the host must know values before ``op`` can return, on every device."""
    tags = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output}
    return not returns_tensors(op) or bool(tags & set(op.tags))


def takes_generator(op: OpOverload) -> bool:
    """Whether ``op`` can be told where its random numbers come from."""
    return any(argument.name == "generator" for argument in op._schema.arguments)


def _given(
    op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[Any, Any]]:
    for position, argument in enumerate(op._schema.arguments):
        if position < len(args):
            yield argument, args[position]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]
