"""The state of an operator: a tensor that is used several times is listed once.

An operator and its adjoint share dictionaries. If a tensor were listed under both names
(``0.weight`` and ``1.weight`` of ``A.N``), ``torch.func.functional_call`` would not restore it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from torch import Tensor, nn

from .._kernels._dtype import resolve_conj_and_neg


def plain_weight(tensor: Tensor) -> Tensor:
    """Return the tensor without a lazy conjugation, which other processes and files do not keep.

    A tensor that trains, or a view of one, stays as it is, and follows the training.
    """
    return tensor if tensor.requires_grad else resolve_conj_and_neg(tensor)


def names_by_tensor(module: nn.Module, prefix: str) -> list[list[str]]:
    """Return the names of each tensor of a module, in the order of use."""
    names: dict[tuple[int, str], list[str]] = {}
    for name, use in _uses(module, prefix):
        names.setdefault(use, []).append(name)
    return [*names.values()]


def _uses(module: nn.Module, prefix: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the name of each use of a tensor, and the dictionary that holds it."""
    for kept in (module._parameters, module._buffers):
        for name in kept:
            yield prefix + name, (id(kept), name)
    for part_name, part in module._modules.items():
        if part is not None:
            yield from _uses(part, f"{prefix}{part_name}.")


def remove_repeated_entries(
    module: nn.Module, state: MutableMapping[str, Any], prefix: str
) -> None:
    """Remove entries from a state that it has under an earlier name."""
    for _, *others in names_by_tensor(module, prefix):
        for name in others:
            state.pop(name, None)


def add_repeated_entries(
    module: nn.Module, state: MutableMapping[str, Any], prefix: str
) -> list[str]:
    """Add the repeated entries of a tensor to a state under all its names; return the errors."""
    errors = []
    for names in names_by_tensor(module, prefix):
        given = [name for name in names if name in state]
        if not given:
            continue
        values = [state[name] for name in given]
        if not all(_same(values[0], value) for value in values[1:]):
            errors.append(f"{', '.join(given)} are one weight and must have one value, got several")
        for name in names:
            state.setdefault(name, values[0])
    return errors


def _same(value: object, other: object) -> bool:
    """Whether two values are equal, with NaN equal to NaN; True for tensors without data."""
    if value is other or not isinstance(value, Tensor) or not isinstance(other, Tensor):
        return value is other
    if value.shape != other.shape:
        return False
    if value.is_meta or other.is_meta:
        return True
    other = other.to(value.device)
    return bool(((value == other) | ((value != value) & (other != other))).all())
