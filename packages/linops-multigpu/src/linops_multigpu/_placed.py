"""An operator at work on another device than the one its weights are on."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from linops_core import Composite, NamedLinop
from nameddim import NamedDimension
from torch import Tensor, nn


class Placed(Composite):
    r"""An operator that computes on another device, on copies that follow its weights.

    ``source`` is the operator as it was given. It stays where it is: its parameters are those
    of this module, to be trained, saved and loaded. ``copy`` holds on the device what the
    source reads (of a tile, its slices), and is what computes. When a tensor of the source has
    been written to or replaced, its copy is brought up to date before the next use. While
    autograd follows a tensor of the source, the tensor is sent on each call instead, by an
    operation through which gradients return.

    Parameters
    ----------
    source : NamedLinop
    copy : NamedLinop
        The same operator with the same tensors on ``device``.
    device : torch.device
    """

    def __init__(self, source: NamedLinop, copy: NamedLinop, device: torch.device) -> None:
        super().__init__(source.shape, [source])
        self.device = device
        # Past Module.__setattr__: the copies are nobody's to train or save.
        vars(self).update(_copy=copy, _snapshot=_Snapshot(source))

    @property
    def name(self) -> str:
        """The name of the operator and its device."""
        return f"{self.source.name} on {self.device}"

    @property
    def source(self) -> NamedLinop:
        """The operator as it was given, where it was given."""
        return self.linops[0]

    @staticmethod
    def fn(linop: Any, x: Tensor, /) -> Tensor:
        """Return A x, computed on the device."""
        return linop.up_to_date()(x)  # type: ignore[no-any-return]

    adj_fn = fn  # source and copy of an adjoint are adjoints

    def up_to_date(self) -> NamedLinop:
        """Return the operator on the device, with the values that its weights have now."""
        source = self.source
        if torch.is_grad_enabled() and any(t.requires_grad for t in _tensors(source)):
            return source.with_weights(self._sent)
        snapshot: _Snapshot | None = vars(self)["_snapshot"]
        if snapshot is None or not snapshot.shows(source):
            self._bring_up_to_date()
        copy: NamedLinop = vars(self)["_copy"]
        return copy

    def _bring_up_to_date(self) -> None:
        snapshot = _Snapshot(self.source)
        present = self.source.with_weights(Tensor.detach)
        pairs = list(zip(_tensors(vars(self)["_copy"]), _tensors(present), strict=True))
        if all(old.shape == new.shape and old.dtype == new.dtype for old, new in pairs):
            for old, new in pairs:
                old.copy_(new)
        else:
            vars(self)["_copy"] = present.with_weights(self._sent)
        vars(self)["_snapshot"] = snapshot

    def _sent(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device)

    def _derived(self, source: NamedLinop, copy: NamedLinop) -> Placed:
        return Placed(source, copy, self.device)

    def _current_copy(self) -> NamedLinop:
        with torch.no_grad():  # what is derived from it decides for itself whether to send
            return self.up_to_date()

    def adjoint(self) -> NamedLinop:
        """Return the adjoint, on the same device and with the same copies."""
        return self._derived(self.source.H, self._current_copy().H)

    def own_normal(self) -> NamedLinop:
        """Return the normal operator, on the same device and with the same copies."""
        return self._derived(self.source.normal(), self._current_copy().normal())

    def why_opaque(self, dim: NamedDimension | str) -> str | None:
        """Return why ``dim`` cannot be sliced: as in the source."""
        return self.source.why_opaque(dim)

    @staticmethod
    def split(linop: Any, tile: Mapping[NamedDimension, slice], /) -> NamedLinop:
        """Return the part of the operator, on the same device; see :meth:`NamedLinop.split`."""
        source, copy = linop.source, linop._current_copy()
        return linop._derived(source.split(source, tile), copy.split(copy, tile))  # type: ignore[no-any-return]

    def renamed(self, names: Mapping[NamedDimension, NamedDimension]) -> NamedLinop:
        """Return the operator with other names for its dimensions."""
        return self._derived(self.source.renamed(names), self._current_copy().renamed(names))

    def resolved(
        self,
        ishape: tuple[NamedDimension, ...] | None = None,
        oshape: tuple[NamedDimension, ...] | None = None,
    ) -> NamedLinop:
        """Return the operator with its wildcards replaced by what they stand for."""
        if self.shape.resolve(ishape=ishape, oshape=oshape) == self.shape:
            return self
        return self._derived(
            self.source.resolved(ishape=ishape, oshape=oshape),
            self._current_copy().resolved(ishape=ishape, oshape=oshape),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes; the snapshot is one of other tensors."""
        return {**super().__getstate__(), "_snapshot": None}


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """Yield the tensors of a module and its parts, those of a part used twice twice."""
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None:
            yield tensor
    for child in module._modules.values():
        if child is not None:
            yield from _tensors(child)


class _Snapshot:
    """The tensors of an operator at one moment, as far as a change of them can be told."""

    def __init__(self, linop: NamedLinop) -> None:
        self._seen = [(weakref.ref(tensor), *_marks(tensor)) for tensor in _tensors(linop)]

    def shows(self, linop: NamedLinop) -> bool:
        """Whether no tensor was written to, replaced, moved or cast since."""
        tensors = list(_tensors(linop))
        return len(tensors) == len(self._seen) and all(
            seen() is tensor and tuple(marks) == _marks(tensor)
            for tensor, (seen, *marks) in zip(tensors, self._seen, strict=True)
        )


def _marks(tensor: Tensor) -> tuple[int | None, int, torch.dtype, torch.device]:
    # A tensor made in inference mode keeps no count of writes; `data = ` keeps the count.
    version = None if tensor.is_inference() else tensor._version
    return version, tensor.untyped_storage()._cdata, tensor.dtype, tensor.device
