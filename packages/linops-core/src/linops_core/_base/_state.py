"""The state of an operator: what it uses several times is in it once, under its first name.

An operator and its adjoint share dictionaries, so ``torch.func.functional_call`` would not put back
what is listed under both names (``0.weight`` and ``1.weight`` of ``A.N``).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from torch import Tensor, nn


def uses(module: nn.Module, prefix: str) -> list[list[str]]:
    """Return the names of all uses of each tensor under a module, in the order of their uses."""
    names: dict[tuple[int, str], list[str]] = {}
    for name, place in _places(module, prefix):
        names.setdefault(place, []).append(name)
    return [*names.values()]


def _places(module: nn.Module, prefix: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield the name of each use of a tensor, and where the tensor is kept."""
    for kept in (module._parameters, module._buffers):
        for name in kept:
            yield prefix + name, (id(kept), name)
    for part_name, part in module._modules.items():
        if part is not None:
            yield from _places(part, f"{prefix}{part_name}.")


def forget_repeated(module: nn.Module, state: MutableMapping[str, Any], prefix: str) -> None:
    """Remove from the state of a module what it has under an earlier name."""
    for _, *others in uses(module, prefix):
        for name in others:
            state.pop(name, None)


def repeat_all(module: nn.Module, state: MutableMapping[str, Any], prefix: str) -> list[str]:
    """Add to the state of a module what it has under the name of another use; return the errors."""
    errors = []
    for names in uses(module, prefix):
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
    """Whether two values are equal, NaN to NaN too; of those that exist only by shape, always."""
    if value is other or not isinstance(value, Tensor) or not isinstance(other, Tensor):
        return value is other
    if value.shape != other.shape:
        return False
    if value.is_meta or other.is_meta:
        return True
    other = other.to(value.device)
    return bool(((value == other) | ((value != value) & (other != other))).all())
