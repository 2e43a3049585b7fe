"""Real and imaginary parts of tensors of any dtype, and complex tensors from real ones."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

_COMPLEX = {
    torch.float16: torch.complex32,
    torch.bfloat16: torch.complex64,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


def resolve_conj_and_neg(x: Tensor) -> Tensor:
    """Return x with its lazy conjugation and negation carried out; x itself if it has none.

    Other programs read the memory of a tensor and not the two bits: safetensors, DLPack, compiled
    graphs, ``torch.export.save``, processes of a DataLoader.
    """
    # A compiler cannot ask. A symbol of torch.fx is not a tensor and cannot answer.
    if not is_dynamo_compiling() and isinstance(x, Tensor) and not (x.is_conj() or x.is_neg()):
        return x
    return x.resolve_conj().resolve_neg()


def real_part(x: Tensor) -> Tensor:
    """Return Re x in a real dtype: a view, or x itself if it is real."""
    return x.real if x.is_complex() else x


def imag_part(x: Tensor) -> Tensor:
    """Return Im x in a real dtype: a view unless x is a lazy conjugate, or zeros if x is real."""
    # The imaginary part of a lazy conjugate has the negative bit, which vmap does not support.
    # The sum of no entries, so that autograd knows that the zeros depend on x.
    return x.resolve_conj().imag if x.is_complex() else x.unsqueeze(0)[:0].sum(0).to(x.dtype)


def as_complex(x: Tensor) -> Tensor:
    """Return x in the complex dtype of its precision; integers have the default precision."""
    # A table, because compilers do not support dtype.to_complex().
    is_number = x.is_floating_point() or x.is_complex()
    dtype = x.dtype if is_number else torch.get_default_dtype()
    return x.to(_COMPLEX.get(dtype, dtype))


def as_parts(x: Tensor) -> Tensor:
    """Return (2, ...): the real and the imaginary parts."""
    return torch.stack([real_part(x), imag_part(x)])


def of_parts(x: Tensor) -> Tensor:
    """Return the complex tensor with real and imaginary parts (2, ...)."""
    return torch.complex(*(x if x.is_floating_point() else x.to(torch.get_default_dtype())))
