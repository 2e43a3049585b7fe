"""Whether values computed from locations and weights can be kept until these change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from linops_core.siblings import is_plain

Place: TypeAlias = tuple[object, ...]


def may_be_kept(x: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Return whether changes of the tensors are noticed, and no transform records the computation.

    Writes of some optimizers are not counted by torch, and neither are writes in inference mode.
    """
    # In memory planning x and the tensors are of one class without data.
    kinds = (Tensor, torch.nn.Parameter, type(tensors[0]))
    return (
        is_plain(*tensors)
        and type(x) in kinds
        and not x.is_meta
        and not any(t.requires_grad or t.is_inference() or t.grad is not None for t in tensors)
    )


def place_of(view: Tensor) -> Place:
    """Return the place of a view in its storage."""
    return view.storage_offset(), view.shape, view.stride()
