"""Version counters: what autograd counts together in the sources, it counts together in copies.

torch counts the writes to a tensor, and refuses to run a graph backward that saved it before. A
view has the counter of its base; ``x.data`` has one of its own. Memory alone does not tell, so
the tensors are asked: each is given another count, and those that end with the same one share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ._at_once import at_once
from ._rebuild import counted_with

_set_versions = torch._C._autograd._unsafe_set_version_counter
_version_of = vars(torch._C.TensorBase)["_version"].__get__


class Counters:
    """One pair of source and copy for each counter of each source storage."""

    def __init__(self) -> None:
        self._pairs: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._later: list[tuple[Iterable[torch.Tensor], Iterable[torch.Tensor]]] = []

    def copy(self) -> Counters:
        """The same pairs; what is added to the copy is not here."""
        made = Counters()
        made._pairs = {storage: pairs.copy() for storage, pairs in self._pairs.items()}
        made._later = self._later.copy()
        return made

    def add(self, sources: Iterable[torch.Tensor], made: Iterable[torch.Tensor]) -> None:
        """Note copies that are there already, and keep the counters that they have.

        Parameters
        ----------
        sources, made : iterable of torch.Tensor
            The tensors and their copies.
        """
        self._later.append((sources, made))  # most are never asked for

    def share(self, sources: Iterable[torch.Tensor], plain: dict[int, torch.Tensor]) -> None:
        """Make copies again so that they share counters with one another as their sources do.

        Parameters
        ----------
        sources : iterable of torch.Tensor
            The tensors.
        plain : dict of int to torch.Tensor
            Their copies, by the id of the source; changed.
        """
        by_storage: dict[int, list[torch.Tensor]] = {}
        for source in sources:
            if _is_counted(source) and _is_counted(plain[id(source)]):
                by_storage.setdefault(source.untyped_storage()._cdata, []).append(source)
        if not by_storage:
            return
        for known, made in self._later:
            for pair in zip(known, made, strict=True):
                if all(map(_is_counted, pair)):
                    storage = pair[0].untyped_storage()._cdata
                    self._pairs.setdefault(storage, []).append(pair)
        self._later.clear()
        for storage, members in by_storage.items():
            pairs = self._pairs.setdefault(storage, [])
            labels = _labels([source for source, _ in pairs] + members)
            first = {label: made for label, (_, made) in zip(labels, pairs, strict=False)}
            for source, label in zip(members, labels[len(pairs) :], strict=True):
                anchor = first.get(label)
                if anchor is None:
                    first[label] = plain[id(source)]
                    pairs.append((source, plain[id(source)]))
                else:
                    plain[id(source)] = counted_with(plain[id(source)], anchor)


def _is_counted(tensor: torch.Tensor) -> bool:
    """Whether torch counts writes to a tensor, and its copies can be made to count along."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and not tensor.is_inference()
        and not isinstance(tensor, FakeTensor)
        and not is_traceable_wrapper_subclass(tensor)
    )


def _labels(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Numbers that are the same for tensors that share a counter, and for no others."""
    before = [tensor._version for tensor in tensors]
    if len(set(before)) == len(before):
        return before
    counted, labels = tuple(tensors), list[int]()
    put_back = partial(_set_versions, counted, tuple(before))
    try:
        at_once(
            [
                partial(_set_versions, counted, tuple(range(len(counted)))),
                partial(labels.extend, map(_version_of, counted)),
                put_back,
            ]
        )
    except BaseException:
        put_back()
        raise
    return labels
