"""batched: cut an operator, for one device or for several."""

from __future__ import annotations

from collections.abc import Mapping

from linops_core import NamedLinop
from linops_split import BatchPlan, batch_linop
from nameddim import NamedDimension

from ._batch_spec import BatchSpec, DeviceMatrix
from ._create import create_batched_linop


def batched(
    linop: NamedLinop,
    batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int] | BatchPlan,
    devices: DeviceMatrix | None = None,
    *,
    sizes: Mapping[str, int] | Mapping[NamedDimension, int] | None = None,
    tqdm_kwargs: Mapping[str, object] | None = None,
) -> NamedLinop:
    """Return an operator equal to ``linop`` that works tile by tile, on one device or on several.

    It calls :func:`linops_split.batch_linop`, or :func:`create_batched_linop` with ``devices``.
    Call that function yourself for several specs, streams, or another base device.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int, or BatchPlan
        The length of a tile in each dimension that is cut. The first dimension is the outermost
        loop. Or the result of :func:`linops_split.plan_batches`.
    devices : device, or nested sequences or array of devices, optional
        The devices of the tiles, as ``device_matrix`` of :class:`BatchSpec`: with two devices, the
        tiles alternate. Inputs and outputs are on the device of ``linop``. By default the tiles
        are there, too.
    sizes, tqdm_kwargs
        As in :func:`create_batched_linop`. A plan has the sizes.

    Returns
    -------
    NamedLinop
        Its tiles refer to the weights of ``linop``. Nothing is copied, except to other devices.

    Raises
    ------
    TypeError, ValueError, SplitError
        As :func:`linops_split.batch_linop` and :func:`create_batched_linop`.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Diagonal
    >>> A = Diagonal(torch.arange(4.0), ("N",))
    >>> batched(A, {"N": 2})(torch.ones(4))
    tensor([0., 1., 2., 3.])
    >>> batched(A, {"N": 1}, ["cpu", "cpu"])(torch.ones(4))
    tensor([0., 1., 2., 3.])
    """
    if isinstance(batch_sizes, BatchPlan):
        sizes = batch_sizes.sizes if sizes is None else sizes
        batch_sizes = batch_sizes.batch_sizes
    if devices is None:
        return batch_linop(linop, batch_sizes, sizes=sizes, tqdm_kwargs=tqdm_kwargs)
    spec = BatchSpec(batch_sizes, devices)
    return create_batched_linop(linop, spec, sizes=sizes, tqdm_kwargs=tqdm_kwargs)
