"""What an operator does with its arguments, as far as its schema says."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves


def written_by(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments that ``op`` writes to."""
    found = []
    for position, argument in enumerate(op._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            found += tensors_in(given)
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
