"""What becomes of an operator that meets a simulated device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ._compute import compute_later
from ._machine import Machine
from ._registration import without_memory
from ._special import SPECIAL

aten = torch.ops.aten
_INDEXED = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index)


def run(machine: Machine, op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do what ``op`` does on a real device: most of it later."""
    special = SPECIAL.get(op)
    if special is not None:
        return special(machine, *args, **kwargs)
    if op.is_view or op.overloadpacket is aten.set_:
        return without_memory(op, args, kwargs)
    if op.overloadpacket in _INDEXED and len(args) > 1:
        # Positions may come from the host, on every kind of device.
        args = (args[0], [_brought(index, args[0].device) for index in args[1]], *args[2:])
    return compute_later(machine, op, args, kwargs)


def _brought(index: Tensor | None, device: torch.device) -> Tensor | None:
    return None if index is None else index.to(device)
