"""Tensors that only their class can move or cast: wrapper subclasses and tensors of unknown layout.

The parts of a wrapper follow rules that only its class knows: a scale keeps its precision, numbers
in 8 bits stay in 8 bits. So ``Tensor.to`` of the class casts the whole tensor.
"""

from __future__ import annotations

from collections.abc import Container

import torch

from .._errors import CastError, MoveError
from .._modules._traverse import FoundTensor, path_text
from .._views._address import is_wrapper
from ._cast import new_type
from ._plan import CopyPlan


def is_cast_by_class(tensor: torch.Tensor, dtype: torch.dtype | None) -> bool:
    """Whether the class of a tensor casts it; the values of a nested tensor are cast like others.

    A class that already has the type is not asked.
    """
    return (
        dtype is not None
        and is_wrapper(tensor)
        and not tensor.is_nested
        and new_type(tensor, dtype) != tensor.dtype
    )


def add_casts_by_class(plan: CopyPlan, dtype: torch.dtype | None, uncast: Container[int]) -> None:
    """Let the classes of wrappers cast them, except those with the `uncast` ids.

    Raises `CastError` if that would end shared memory.
    """
    wholes = {id(item.tensor): composite for item, composite in plan.composites}
    parts: set[int] = set()
    for item in plan.tensors:
        is_cast = is_cast_by_class(item.tensor, dtype) and id(item.tensor) not in uncast
        if is_cast and id(item.tensor) in wholes:
            plan.unknown.append(item)
            todo = [wholes[id(item.tensor)]]
            while todo:
                for part in todo.pop().parts:
                    parts.add(id(part))
                    todo += [wholes[id(part)]] if id(part) in wholes else []
    for group in plan.groups:
        for piece in group.pieces if len(group.pieces) > 1 else []:
            number = piece.tensor.is_floating_point() or piece.tensor.is_complex()
            if number and id(piece.tensor) in parts:
                others = [other for other in group.pieces if other is not piece]
                raise CastError(
                    f"{path_text(piece.path)}: a part of a tensor that its class casts must share "
                    "memory with no other tensor, got one that shares it with "
                    f"{', '.join(path_text(other.path) for other in others)}"
                )


def sent_by_class(
    item: FoundTensor,
    tensor: torch.Tensor,
    device: torch.device | None,
    dtype: torch.dtype | None = None,
    copy: bool = False,
) -> torch.Tensor:
    """A tensor, moved and cast by its class.

    Raises `CastError` or, without a dtype, `MoveError`, if the class raises an error, or returns a
    tensor of another class or on another device.
    """
    refusal = MoveError if dtype is None else CastError
    rule = f"{path_text(item.path)}: its class {type(item.tensor).__name__} must move and cast it"
    try:
        # Not to(copy=True), which many classes refuse.
        made = tensor.clone() if copy and device == tensor.device else tensor.to(device, dtype)
    except Exception as error:  # a class may raise anything
        raise refusal(f"{rule}, got {type(error).__name__}: {error}") from error
    if is_wrapper(tensor) and (
        type(made) is not type(tensor) or (device is not None and made.device != device)
    ):
        raise refusal(f"{rule}, got a {type(made).__name__} on {made.device} from it")
    return made
