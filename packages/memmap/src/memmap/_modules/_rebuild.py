"""A tensor made again over other memory: same view, same bits, same class."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .._views._address import PLAIN_TENSORS

T = TypeVar("T", bound=torch.Tensor)


def view_like(
    source: torch.Tensor,
    storage: torch.UntypedStorage,
    offset: int,
    strides: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> torch.Tensor:
    """The view that `source` is, over other memory.

    Parameters
    ----------
    source : torch.Tensor
        Gives sizes, strides, dtype, and the conjugate and negative bits.
    storage : torch.UntypedStorage
        The memory; must hold the view.
    offset : int
        Bytes from the start of the storage to the element with index 0.
    strides : sequence of int, optional
        Strides in elements, if not those of `source`.
    dtype : torch.dtype, optional
        Type of the elements, if not that of `source`.
    device : torch.device, optional
        Where a fake tensor pretends to be, if not where `source` is.

    Returns
    -------
    torch.Tensor
        A tensor without history; a view of `storage`. Plain, unless `source` is a fake one.

    Examples
    --------
    >>> x = torch.arange(6)
    >>> view_like(x[::2], x.clone().untyped_storage(), 8)
    tensor([1, 3, 5])
    """
    dtype = dtype or source.dtype
    misfit = offset % dtype.itemsize
    if misfit:
        # Memory that came from elsewhere may start anywhere; torch counts in whole elements.
        storage = storage[misfit:]
    if source.is_quantized:
        tensor = _empty_quantized(source, storage.device)
    else:
        tensor = torch.empty(0, dtype=dtype, device=storage.device)
    tensor.set_(storage, offset // dtype.itemsize, source.shape, strides or source.stride())
    if source.is_conj():
        torch._C._set_conj(tensor, True)
    if source.is_neg():
        torch._C._set_neg(tensor, True)
    if isinstance(source, FakeTensor):
        return FakeTensor(source.fake_mode, tensor, device or source.device)
    return tensor


def _empty_quantized(source: torch.Tensor, device: torch.device) -> torch.Tensor:
    if source.qscheme() == torch.per_tensor_affine:
        return torch._empty_affine_quantized(
            [0],
            scale=source.q_scale(),
            zero_point=source.q_zero_point(),
            dtype=source.dtype,
            device=device,
        )
    return torch._empty_per_channel_affine_quantized(
        [0] * source.dim(),
        scales=source.q_per_channel_scales().to(device),
        zero_points=source.q_per_channel_zero_points().to(device),
        axis=source.q_per_channel_axis(),
        dtype=source.dtype,
        device=device,
    )


def strided(
    data: torch.Tensor,
    offset: int,
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
) -> torch.Tensor:
    """A strided view of some bytes.

    Parameters
    ----------
    data : torch.Tensor
        uint8, one-dimensional and contiguous.
    offset : int
        Bytes from its start to the element with index 0.
    sizes, strides : sequence of int
        In elements.
    dtype : torch.dtype
        Type of the elements.

    Returns
    -------
    torch.Tensor
        A view.

    Examples
    --------
    >>> strided(torch.arange(6, dtype=torch.uint8), 2, (2,), (1,), torch.int16)
    tensor([ 770, 1284], dtype=torch.int16)
    """
    offset += int(data.storage_offset())
    storage = data.untyped_storage()
    misfit = offset % dtype.itemsize
    if misfit:
        storage = storage[misfit:]
    made = torch.empty(0, dtype=dtype, device=data.device)
    return made.set_(storage, offset // dtype.itemsize, sizes, strides)


def dressed(plain: torch.Tensor, source: T) -> T:
    """A plain tensor as an instance of the class of `source`.

    Parameters
    ----------
    plain : torch.Tensor
        A tensor without history.
    source : torch.Tensor
        Gives the class and whether gradients are asked for.

    Returns
    -------
    torch.Tensor
        Shares the memory of `plain`; the attributes and the gradient of `source` are not set.

    Examples
    --------
    >>> type(dressed(torch.zeros(2), torch.nn.Parameter(torch.ones(2))))
    <class 'torch.nn.parameter.Parameter'>
    """
    cls = type(source)
    if type(plain) is not cls:
        return torch.Tensor._make_subclass(cls, plain, source.requires_grad)
    made = plain.requires_grad_() if source.requires_grad else plain
    return made  # type: ignore[return-value]  # as above


def counted_with(plain: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The same tensor, with writes to it counted together with those to another one.

    Parameters
    ----------
    plain : torch.Tensor
        A strided tensor without history.
    other : torch.Tensor
        Strided, too; gives the version counter.

    Returns
    -------
    torch.Tensor
        Shares the memory of `plain`. It is `plain` itself if the two are of different kinds (one
        is on ``meta``), which cannot share a counter.

    Examples
    --------
    >>> x, y = torch.zeros(3), torch.ones(2)
    >>> z = counted_with(y, x)
    >>> _ = x.add_(1)
    >>> z, z._version, y._version
    (tensor([1., 1.]), 1, 0)
    """
    if not torch._has_compatible_shallow_copy_type(other, plain):
        return plain
    # Not detach(): torch would refuse to resize what it returns.
    made = torch.Tensor._make_subclass(torch.Tensor, other, False)
    made.data = plain
    return made


def slots_of(tensor: torch.Tensor) -> list[str]:
    """Names of the slots that a tensor subclass has and that are set.

    Parameters
    ----------
    tensor : torch.Tensor
        Any tensor.

    Returns
    -------
    list of str
        Attributes that are not in ``__dict__``.

    Examples
    --------
    >>> slots_of(torch.zeros(1))
    []
    """
    if type(tensor) in PLAIN_TENSORS:
        return []
    names: list[str] = copyreg._slotnames(type(tensor))  # type: ignore[attr-defined]  # not in the stubs
    return [name for name in names if hasattr(tensor, name)]
