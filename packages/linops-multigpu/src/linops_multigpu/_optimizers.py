"""Writes of optimizers, which torch does not count everywhere.

A fused step changes parameters without counting it as a write, so that nobody who keeps something
of their values could tell. Here it is counted, whichever optimizer makes it.
"""

from __future__ import annotations

from typing import Any

from torch.autograd.graph import increment_version
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook


def _count_writes(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for group in optimizer.param_groups:
        increment_version([p for p in group["params"] if p.grad is not None])


register_optimizer_step_post_hook(_count_writes)
