"""Real, complex and integer tensors: their precisions, parts and products."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from typing import TypeGuard

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from ._tracing import is_differentiated

# A table, because compilers do not support dtype.to_complex().
_COMPLEX = {
    torch.float16: torch.complex32,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}

_INTEGERS = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32}
)

_SINGLE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
}

_RARE = re.compile(r"float(16|8|4)|half|complex32|uint(16|32|64)", re.IGNORECASE)
"""Names of the dtypes in which torch does not compute everything, also those in its messages."""


def in_precision_of(tensor: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype of ``tensor`` in the precision of ``dtype``: complex stays complex.

    There are no complex numbers of bfloat16; they stay as they are.
    """
    if dtype is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.dtype
    real = dtype.to_real() if dtype.is_complex else dtype
    if real not in (*_COMPLEX, torch.bfloat16):
        raise TypeError(
            f"the precision of an operator must be a floating or complex dtype, got {dtype}"
        )
    return _COMPLEX.get(real, tensor.dtype) if tensor.is_complex() else real


def dtype_of_cast(old: torch.dtype, new: torch.dtype, is_geometry: bool) -> torch.dtype:
    """Return the dtype for a cast from ``old`` to ``new`` that loses no imaginary part.

    That of coordinates, angles and times is real, and of single or double precision if ``old`` is.
    """
    if is_geometry:
        real = new.to_real() if new.is_complex else new
        return real if {old, real} <= {torch.float32, torch.float64} else old
    return new if new.is_complex else _COMPLEX.get(new, old)


def promoted_dtype(tensors: Iterable[Tensor], default: torch.dtype) -> torch.dtype:
    """Return the dtype to which all tensors except integers promote."""
    dtypes = [x.dtype for x in tensors if x.is_floating_point() or x.is_complex()]
    return reduce(torch.promote_types, dtypes) if dtypes else default


def summable(x: Tensor) -> Tensor:
    """Return x in a dtype for sums: integers and bools as int64."""
    return x if x.is_floating_point() or x.is_complex() else x.long()


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which numbers are added one by one: in bfloat16, ones stop at 256."""
    return _SINGLE.get(dtype, dtype)


def product_in_wide_dtype(weight: Tensor | complex, x: Tensor, out: Tensor | None = None) -> Tensor:
    """Return weight times x; products of integers are int64, those with bools keep the dtype.

    The product is written to ``out`` if that has its shape and dtype and autograd does not follow.
    """
    if x.dtype in _INTEGERS and _is_integer(weight):
        x = x.long()
    if x.dtype is torch.bfloat16 and _is_complex(weight):
        x = x.to(torch.complex64)  # torch 2.15 promotes to a dtype that it cannot multiply
    if out is not None and isinstance(weight, Tensor) and _fits(out, weight, x):
        return torch.mul(weight, x, out=out)
    product: Tensor = weight * x
    return product


def _fits(out: Tensor, weight: Tensor, x: Tensor) -> bool:
    is_new = not is_differentiated(x, weight)
    return is_new and x.shape == out.shape and torch.result_type(weight, x) == out.dtype


def _is_integer(weight: Tensor | complex) -> bool:
    return weight.dtype in _INTEGERS if isinstance(weight, Tensor) else isinstance(weight, int)


def _is_complex(weight: Tensor | complex) -> bool:
    return weight.is_complex() if isinstance(weight, Tensor) else isinstance(weight, complex)


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
    is_number = x.is_floating_point() or x.is_complex()
    dtype = x.dtype if is_number else torch.get_default_dtype()
    return x.to(torch.complex64 if dtype is torch.bfloat16 else _COMPLEX.get(dtype, dtype))


def as_parts(x: Tensor) -> Tensor:
    """Return (2, ...): the real and the imaginary parts."""
    return torch.stack([real_part(x), imag_part(x)])


def of_parts(x: Tensor) -> Tensor:
    """Return the complex tensor with real and imaginary parts (2, ...)."""
    return torch.complex(*(x if x.is_floating_point() else x.to(torch.get_default_dtype())))


def check_torch_computes(owner: str, tensors: Iterable[Tensor], error: RuntimeError) -> None:
    """Raise an error for a dtype in which torch does not compute, instead of the one of torch."""
    rare = [x.dtype for x in tensors if _RARE.search(str(x.dtype))]
    if rare and _RARE.search(str(error)):
        single = torch.complex64 if any([dtype.is_complex for dtype in rare]) else torch.float32
        raise TypeError(
            f"{owner}: the dtype must be one in which torch computes this, got "
            f"{' and '.join(dict.fromkeys(map(str, rare)))} ({error}); convert the input and the "
            f"operator by .to({single})"
        ) from error


def is_dense(value: object) -> TypeGuard[Tensor]:
    """Whether a value is a tensor with one place in memory for each entry: not a sparse one."""
    return isinstance(value, Tensor) and value.layout is torch.strided


def not_a_tensor(owner: str, name: str, value: object, rule: str = "a torch.Tensor") -> TypeError:
    """Return the error for an argument that must be a dense tensor, or one of other numbers."""
    if isinstance(value, Tensor):
        if not is_dense(value):
            rule = f"dense, got the layout {value.layout}; make it so by .to_dense()"
            return TypeError(f"{owner}: {name} must be {rule}")
        return TypeError(f"{owner}: {name} must be {rule}, got {value.dtype}")
    is_array = isinstance(value, (list, tuple)) or hasattr(value, "__array_interface__")
    advice = "; make it one by torch.as_tensor" if is_array else ""
    return TypeError(f"{owner}: {name} must be {rule}, got {type(value)}{advice}")


def check_vector(owner: str, name: str, y: Tensor) -> None:
    """Raise an error unless y is a tensor of a floating or complex dtype with arithmetic."""
    if not isinstance(y, Tensor):
        advice = "" if y is None else f"; convert it by torch.as_tensor({name})"
        if isinstance(y, (list, tuple)) and any(isinstance(part, Tensor) for part in y):
            advice = "; stack several operators into one by VStack"
        raise TypeError(f"{owner}: {name} must be a torch.Tensor, got {type(y)}{advice}")
    if not is_dense(y):
        raise not_a_tensor(owner, name, y)
    if not (y.is_floating_point() or y.is_complex()) or torch.finfo(y.dtype).bits < 16:
        raise TypeError(
            f"{owner}: {name} must be of a floating or complex dtype, got {y.dtype}; convert it by "
            f"{name}.float()"
        )
