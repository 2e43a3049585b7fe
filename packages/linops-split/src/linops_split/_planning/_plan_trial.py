"""Running an operator without data, to find what it would allocate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from types import TracebackType

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from linops_core import Cache, NamedLinop
from linops_core.siblings import children_of, choosing_steps
from nameddim import NamedDimension

from .._batch import cut_into_tiles
from .._batch_sizes import Sizes
from ._peak import AllocationCount
from ._plan_input import refuse_several
from ._without_data import QuickFakeMode

WORK_OPERATORS: Mapping[str, Callable[[NamedLinop], NamedLinop]] = {
    "forward": lambda linop: linop,
    "adjoint": lambda linop: linop.H,
    "normal": lambda linop: linop.N,
}
"""The computations that can be planned, with the operator to call for each."""


class WithoutData:
    """A context in which operators run on tensors without data: sizes and dtypes only.

    Parameters
    ----------
    signature : str
        The signature of the planned operator, for errors.
    """

    def __init__(self, signature: str) -> None:
        self.mode = QuickFakeMode()
        self._signature = signature

    def of(self, linop: NamedLinop) -> NamedLinop:
        """Return the operator with weights that have no data."""
        made = dict[object, Tensor]()

        def of_no_data(weight: Tensor) -> Tensor:
            """Return a fake weight that keeps requires_grad: no tables are kept for those."""
            # A weak reference, because the address of a freed storage is used again.
            storage = StorageWeakRef(weight.untyped_storage())
            layout = weight.storage_offset(), weight.shape, weight.stride()
            look = storage, *layout, weight.dtype, weight.is_conj()
            if look not in made:
                fake = self.mode.from_tensor(weight.detach())
                made[look] = fake.requires_grad_(weight.requires_grad)
            return made[look]

        # Without the mode, because within it each read of a weight has another storage.
        with torch.inference_mode(False), torch.no_grad():
            other = linop.with_weights(of_no_data)
        share_empty_caches(linop, other, {})
        return other

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run operators within this context.

        Raises
        ------
        ValueError
            If an operator reads values of tensors, or cannot run.
        """
        with torch.inference_mode(False), torch.no_grad(), self.mode:
            try:
                yield
            except RuntimeError as error:
                raise ValueError(
                    f"{_running_operator(error.__traceback__) or self._signature}: an operator "
                    f"to be planned must run on tensors without values, got {error}"
                ) from error


def share_empty_caches(old: nn.Module, new: nn.Module, caches: dict[int, object]) -> None:
    """Give copies empty caches, which tiles share where those of which they are copies do.

    Copies of operators without weights still have the caches of the originals.
    """
    for name, value in vars(old).items():
        if isinstance(value, Cache):
            if id(value) not in caches:
                caches[id(value)] = copy(value)  # of a cache: an empty one
            vars(new)[name] = caches[id(value)]
    for one, other in zip(children_of(old), children_of(new), strict=True):
        share_empty_caches(one, other, caches)


class Trial:
    """An operator and its input without data, which can be run in any tiles.

    Only size, strides and dtype of ``x`` matter. The computations in ``works`` run one after
    another.
    """

    def __init__(
        self,
        linop: NamedLinop,
        x: Tensor,
        device: torch.device,
        works: Sequence[str],
        sizes: Sizes | None,
    ) -> None:
        self._without_data = WithoutData(linop.signature)
        self._signature, self._device, self._sizes = linop.signature, device, sizes
        self._linop = self._without_data.of(linop)
        with self._without_data.running():
            x = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)
            y = torch.empty_like(self._linop(x)) if "adjoint" in works else x
        self._inputs = {work: y if work == "adjoint" else x for work in works}

    def peak(self, batch_sizes: Mapping[NamedDimension, int]) -> int:
        """Return the largest peak in bytes of the computations, for these tiles."""
        with self._without_data.running():
            counts = list[AllocationCount]()
            for work, x in self._inputs.items():
                counts.append(count := AllocationCount())
                # With empty caches, because the first call counts, and equal tiles only once.
                fresh, same = self._without_data.of(self._linop), count.structures.first_of
                run = WORK_OPERATORS[work](
                    cut_into_tiles(fresh, batch_sizes, self._sizes, same=same)
                )
                self._without_data.mode.count = count
                with choosing_steps(count.differing):
                    run(x)
                self._without_data.mode.count = None  # the next tiles are made without a count
        devices = {device for count in counts for device in count.peaks} - {self._device}
        if devices:
            refuse_several(self._signature, [str(self._device), *sorted(map(str, devices))])
        return max(count.peaks.get(self._device, 0) for count in counts)


def _running_operator(traceback: TracebackType | None) -> str | None:
    """Return the signature of the innermost operator that was running, or None."""
    signature = None
    while traceback is not None:
        code, values = traceback.tb_frame.f_code, traceback.tb_frame.f_locals
        first = values.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(first, NamedLinop):
            signature = first.signature
        traceback = traceback.tb_next
    return signature
