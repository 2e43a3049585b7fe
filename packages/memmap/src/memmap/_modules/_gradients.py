"""Giving gradients to tensors, also strided gradients to sparse tensors."""

from __future__ import annotations

import torch

from .._torch import swap_memory


def is_of_other_layout(tensor: torch.Tensor) -> bool:
    """Whether a sparse tensor has a strided gradient, which autograd makes and its setter refuses.

    >>> weight = torch.nn.Parameter(torch.eye(2).to_sparse())
    >>> (weight @ torch.ones(2, 1)).sum().backward()
    >>> is_of_other_layout(weight)
    True
    """
    gradient = tensor.grad if tensor.is_leaf and tensor.layout is not torch.strided else None
    return gradient is not None and gradient.layout is torch.strided


def give_gradient(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """Make a tensor object the gradient of a new leaf without hooks.

    Raises the errors of the setter of ``grad`` if the two do not fit.
    """
    if gradient.layout is tensor.layout or gradient.layout is not torch.strided:
        tensor.grad = gradient
        return
    # autograd accumulates another object; then the objects exchange their memory.
    with torch.no_grad():
        torch.autograd.backward(tensor, torch.zeros_like(gradient))
    made = tensor.grad
    assert made is not None  # it was accumulated just now
    made.data = gradient
    swap_memory(made.requires_grad_(gradient.requires_grad), gradient)
