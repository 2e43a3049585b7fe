"""Calls of operators: hooks, checks, and freed memory that is kept for the next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_dynamo_compiling, is_exporting

from .._kept import CHECKED, has_fixed_lengths
from .._kernels._dtype import check_torch_computes, resolve_conj_and_neg
from .._kernels._recursion import advise
from .._kernels._torch_state import has_global_hooks, is_in_forward_mode
from ._dimensions import DimensionedModule
from ._module import check_export

_NOTHING = None, None

_AT_A_TIME = 4
_LONGEST = 2**25 - 2**16
"""glibc goes up to 32 MiB, with what it adds to a block."""

_kept = 0


class Calls(DimensionedModule):
    """Calls, for :class:`NamedLinop` to inherit."""

    fn: Callable[..., Tensor]

    @property
    def is_adjoint(self) -> bool:
        """Whether the functions of the class are swapped, as in :meth:`adjoint`."""
        return bool(self.fn is not type(self).fn)

    def __call__(self, x: Tensor) -> Tensor:
        """Return A x, with the hooks of the module; see :meth:`forward`.

        The result is never a lazy conjugate: ``y.is_conj()`` and ``y.is_neg()`` are False.
        """
        return resolve_conj_and_neg(apply_with_lazy_conjugate(self, x))

    def forward(self, x: Tensor) -> Tensor:
        """Return A x.

        Parameters
        ----------
        x : Tensor
            Of shape ``ishape``.

        Returns
        -------
        Tensor
            Of shape ``oshape``. It shares memory with ``x`` if the operator copies nothing, such as
            Identity or a slice.

        Raises
        ------
        TypeError
            If x, or the result of ``fn``, is not a tensor.
        ValueError
            If x does not have the dimensions and sizes of ``ishape``, or the result does not have
            the dimensions and sizes of ``oshape``. The result is checked for each new shape of x.
        """
        facts = None if is_dynamo_compiling() or type(x) is not Tensor else self._facts(x)
        checked, returned = _NOTHING if facts is None else self._memos.get(CHECKED, _NOTHING)
        is_checked = facts is not None and facts == checked
        if not is_checked:
            self._check_vector(x, "input")
        y = self.fn(self, x)
        if not is_checked or getattr(y, "shape", None) != returned:
            self._check_vector(y, "output")
            if facts is not None and has_fixed_lengths(x.shape):
                CHECKED.keep(self, (facts, y.shape))
                keep_freed(x, y)
        return y

    def _facts(self, x: Tensor) -> tuple[object, ...]:
        """Return all facts that decide whether x is valid: its shape and all lengths."""
        return x.shape, self.sizes("input"), self.sizes("output")


def apply_with_lazy_conjugate(linop: Any, x: Tensor) -> Tensor:
    """Return A x as a call does, or a lazy conjugate of it, which may cancel in a chain."""
    # Tracers replace the method of nn.Module, and do not pass plain tensors.
    is_traced = is_dynamo_compiling()
    is_plain = type(x) is Tensor and not is_traced and not is_hooked(linop)
    if not is_plain and is_exporting():
        check_export(linop)
    if is_traced:  # a compiler leaves a function whose graph breaks in a `try`
        return nn.Module.__call__(linop, x)  # type: ignore[no-any-return]
    if isinstance(x, Tensor) and (x.is_conj() or x.is_neg()) and is_in_forward_mode():
        x = resolve_conj_and_neg(x)  # torch refuses views of one whose tangent is not lazy as well
    try:
        y: Tensor = linop.forward(x) if is_plain else nn.Module.__call__(linop, x)
    except RecursionError as error:
        advise(error)
        raise
    except RuntimeError as error:
        if isinstance(x, Tensor):  # else it was refused, perhaps by another process
            check_input(linop, x, error)
        raise
    return y


def is_hooked(linop: Any) -> bool:
    """Whether a call of an operator does more than call ``forward``."""
    return bool(
        linop._forward_hooks
        or linop._forward_pre_hooks
        or linop._backward_hooks
        or linop._backward_pre_hooks
        or linop._compiled_call_impl
        or has_global_hooks()
    )


def check_input(linop: Any, x: Tensor, error: RuntimeError) -> None:
    """Raise an error for an input where the operator cannot work, instead of one of torch.

    It is called after an error of torch, because right calls would wait for it.
    """
    devices = linop.input_devices
    if devices and x.device not in devices:
        wanted = " or ".join(map(str, devices))
        raise ValueError(
            f"{linop.signature}: the input must be on the device of the weights, {wanted}, got one "
            f"on {x.device}; move one of them by .to(device)"
        ) from error
    if x.layout is not torch.strided:
        raise TypeError(
            f"{linop.signature}: the input must be a dense tensor, got the layout {x.layout}; "
            "make it one: x.to_dense()"
        ) from error
    check_torch_computes(linop.signature, [x, *linop.parameters(), *linop.buffers()], error)


def keep_freed(*tensors: Tensor) -> None:
    """Make the C library keep freed memory of the size of these tensors.

    glibc gives large freed blocks back to the system. For the next tensor, the system then fills
    new pages with zeros, which takes longer than the arithmetic. glibc keeps blocks that are at
    most as long as the longest block freed before, up to 32 MiB, and twice that length in all. So
    this function allocates such a block and frees it. The block is never written to, so it takes no
    memory. Other C libraries, and a limit that is set by ``MALLOC_MMAP_THRESHOLD_``, stay as they
    are. Tensors that are not on the CPU do not count.
    """
    global _kept
    plain = [x for x in tensors if type(x) is Tensor and x.is_cpu]
    nbytes = max([x.numel() * x.element_size() for x in plain], default=0)
    length = min(_AT_A_TIME * nbytes, _LONGEST)
    if length > _kept:
        torch.UntypedStorage(length, device="cpu")
        _kept = length
