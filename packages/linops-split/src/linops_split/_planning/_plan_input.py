"""What a plan needs to know about an operator: its device, its dimensions to cut, its input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from sys import maxsize
from typing import NoReturn

import torch
from torch import Tensor

from linops_core import NamedLinop, Role
from linops_core.siblings import submodules_of
from nameddim import ELLIPSES, ND, NamedDimension

from .._batch_sizes import Sizes, slices_along
from ._plan_budget import Memory


def device_of(linop: NamedLinop, like: Tensor | None, memory: Memory | None) -> torch.device:
    """Return the device of the weights; without weights, the device of the input or the memory."""
    if not isinstance(like, (Tensor, type(None))):
        raise TypeError(f"plan_batches: like must be a tensor, got {like!r}")
    # An operator that works on copies of its weights takes its input on the device of the copies.
    operators = [operator for operator in submodules_of(linop) if isinstance(operator, NamedLinop)]
    of_weights = {tensor.device for tensor in _weights(linop)}
    of_inputs = {device for operator in operators for device in operator.input_devices}
    devices = sorted(map(str, of_weights | of_inputs))
    if len(devices) > 1:
        refuse_several(linop.signature, devices)
    given = None if like is None or like.is_meta else like.device
    if not devices:
        return given or (memory if isinstance(memory, torch.device) else torch.device("cpu"))
    device = torch.device(devices[0])
    if given not in (None, device):
        raise ValueError(
            f"{linop.signature}: like must be on the operator's device, {device}, got {given}"
        )
    return device


def refuse_several(signature: str, devices: Sequence[str]) -> NoReturn:
    """Raise an error for an operator on several devices, and say what to plan instead."""
    raise ValueError(
        f"{signature}: an operator to be planned must be and work on one device, because the "
        f"budget is the memory of one device, got {', '.join(devices)}; plan the operator before "
        "you move or batch it over devices, then batch it with the batch_sizes of the plan"
    )


def dims_to_cut(
    linop: NamedLinop, dims: Sequence[NamedDimension | str] | None, sizes: Sizes | None
) -> dict[NamedDimension, int]:
    """Return the dimensions that may be cut with their sizes, preferred ones first."""
    given = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    if dims is None:
        inner = sorted(linop.dims - {*linop.oshape, *linop.ishape}, key=str)
        sides = dict.fromkeys((*linop.oshape, *linop.ishape, *inner))
        cuttable = [dim for dim in sides if linop.role(dim) not in (None, Role.OPAQUE)]
    else:
        if isinstance(dims, str) or not isinstance(dims, Iterable):
            raise TypeError(f"plan_batches: dims must be a sequence of dimensions, got {dims!r}")
        cuttable = [ND.infer(dim) for dim in dims]
        slices_along(linop, dict.fromkeys(cuttable, maxsize), given)  # raises for invalid ones
    lengths = {dim: given.get(dim, linop.size(dim)) for dim in cuttable}
    return {dim: size for dim, size in lengths.items() if size is not None and size > 1}


def input_of(
    linop: NamedLinop,
    like: Tensor | None,
    sizes: Sizes | None,
    dtype: torch.dtype | None,
    owner: str = "plan_batches",
) -> Tensor:
    """Return an input without data, on the meta device; see :func:`plan_batches`."""
    if not isinstance(dtype, (torch.dtype, type(None))):
        raise TypeError(f"{owner}: dtype must be a torch.dtype, got {dtype!r}")
    if like is not None:
        if sizes is not None or dtype is not None:
            raise ValueError(f"{owner}: give either like, or sizes and dtype, got both")
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="meta")
    given = {ND.infer(dim): size for dim, size in (sizes or {}).items()}
    if strange := given.keys() - set(linop.ishape):
        raise ValueError(
            f"{linop.signature}: sizes must be of dimensions of the input, got {sorted(strange)}"
        )
    lengths = {dim: given.get(dim, linop.size(dim)) for dim in linop.ishape}
    unknown = [str(dim) for dim, length in lengths.items() if length is None]
    if unknown:
        ways = "like" if ELLIPSES in unknown else "sizes or like"
        raise ValueError(
            f"{linop.signature}: the sizes of the input must be known; give {ways}, "
            f"got none for ({', '.join(unknown)})"
            f"{'; many operators have no ... if they get batch_shape=()' * (ELLIPSES in unknown)}"
        )
    shape = [length for length in lengths.values() if length is not None]
    dtype = complex_dtype(linop) if dtype is None else dtype
    if dtype is None:
        raise ValueError(
            f"{linop.signature}: the dtype of the input must be known if no weight is complex; "
            "give dtype or like, got neither"
        )
    return torch.empty(shape, dtype=dtype, device="meta")


def sizes_of(linop: NamedLinop, x: Tensor) -> dict[NamedDimension, int]:
    """Return the sizes that an operator does not know, from an input."""
    if ELLIPSES in linop.ishape:
        return {}
    pairs = zip(linop.ishape, x.shape, strict=False)  # the operator checks x when it is called
    return {dim: size for dim, size in pairs if linop.size(dim) is None}


def complex_dtype(linop: NamedLinop) -> torch.dtype | None:
    """Return the dtype of complex weights, if any; with them everything is complex."""
    dtypes = [weight.dtype for weight in _weights(linop) if weight.is_complex()]
    return reduce(torch.promote_types, dtypes) if dtypes else None


def _weights(linop: NamedLinop) -> list[Tensor]:
    return [*linop.parameters(), *linop.buffers()]
