"""The tensors that a move of a module takes along: parameters, buffers and their gradients."""

from __future__ import annotations

import torch

from ._traverse import Found, Path


def state_tensors(module: torch.nn.Module) -> list[Found]:
    """Parameters, buffers and gradients of a module and its submodules, each object once.

    Parameters
    ----------
    module : torch.nn.Module
        Any module; shared submodules and cycles are met once, None entries passed over.

    Returns
    -------
    list of Found
        In the order of ``module.modules()``; buffers that are not persistent included.

    Examples
    --------
    >>> [found.tensor.shape for found in state_tensors(torch.nn.Linear(2, 3))]
    [torch.Size([3, 2]), torch.Size([3])]
    """
    found: list[Found] = []
    seen: set[int] = set()

    def add(tensor: torch.Tensor, path: Path) -> None:
        if id(tensor) in seen:
            return
        seen.add(id(tensor))
        found.append(Found(tensor, path, True))
        if tensor.is_leaf and tensor.grad is not None:
            add(tensor.grad, (path, ".grad"))

    for prefix, part in module.named_modules():
        path = (None, prefix) if prefix else None
        for entries in (part._parameters, part._buffers):
            for name, tensor in entries.items():
                if tensor is not None:
                    add(tensor, (path, f".{name}"))
    return found
