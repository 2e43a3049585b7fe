"""The names of torch that are private or not documented, and what each is needed for.

No other module of this package imports one. ``tests/test_torch.py`` says of each what it must do.
(Attributes of objects are used where they are needed: ``_cdata`` is the identity of a tensor or a
storage, ``_base`` the tensor that a view is of.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._ops import OpOverload as OpOverload  # the class of operators
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch.utils import _pytree as pytree  # containers in arguments of operators

# `without_modes` leaves all modes; a wrapper subclass shows its parts.
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as without_modes
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as shows_its_parts

__all__ = ["pytree", "shows_its_parts", "without_modes"]

_members = vars(torch._C.TensorBase)

data_address: Callable[[torch.Tensor], int] = vars(torch._C)["_data_address"]
"""The address of the storage; unlike ``data_ptr``, it leaves lazy copies lazy."""
is_copy_on_write: Callable[[torch.Tensor], bool] = vars(torch._C)["_is_cow_tensor"]
n_holders = torch._C._storage_Use_Count
"""How many tensors and objects hold a storage, by its identity."""

# Descriptors, because a call of one runs no Python code, so no interrupt divides it.
set_data, set_grad = _members["data"].__set__, _members["grad"].__set__
set_hooks = {
    name: _members[name].__set__ for name in ("_backward_hooks", "_post_accumulate_grad_hooks")
}
version_of: Callable[[torch.Tensor], int] = _members["_version"].__get__
set_versions = torch._C._autograd._unsafe_set_version_counter
set_grad_enabled = torch._C._set_grad_enabled
WithoutFunctions = torch._C.DisableTorchFunction
"""A context in which modes and subclasses run no code of theirs."""

swap_memory = torch._C._swap_tensor_impl
"""Exchanges the C++ tensors of two tensor objects."""
fits_in_place = torch._has_compatible_shallow_copy_type
"""Whether a tensor can be given the memory of another one by ``data``."""
of_class = torch.Tensor._make_subclass
nested_from = torch._nested_view_from_buffer
of_mkldnn: torch.layout = vars(torch)["_mkldnn"]
TORCH_APPLY = (torch.nn.Module._apply, torch.nn.RNNBase._apply)
"""The methods with which ``Module.to`` converts tensors, unless a class overrides them."""
storage_names = torch.storage._dtype_to_storage_type_map
"""The names of storage classes in old checkpoints, by their types."""


def computes_in_python(tensor: torch.Tensor) -> bool:
    """Whether operators on a tensor are calls of its class."""
    has_key: bool = vars(torch._C)["_dispatch_keys"](tensor).has(torch._C.DispatchKey.Python)
    return has_key


def set_bits(tensor: torch.Tensor, conjugate: bool, negative: bool) -> None:
    """Set the bits that say that a tensor is read conjugated or negated."""
    if conjugate:
        torch._C._set_conj(tensor, True)
    if negative:
        torch._C._set_neg(tensor, True)
