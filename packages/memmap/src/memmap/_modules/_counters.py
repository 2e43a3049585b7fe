"""Version counters: copies share a counter if and only if their sources do.

torch counts the writes to a tensor, and refuses to run a graph backward if a tensor it saved was
written since. A view has the counter of its base; ``x.data`` has its own. Shared memory does not
imply a shared counter. So each tensor is given another count; tensors that then have the same
count share a counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import torch

from .._torch import FakeTensor, fits_in_place, of_class, set_versions, version_of
from .._views._address import is_wrapper
from ._at_once import at_once


class Counters:
    """One pair of source and copy for each version counter of each source storage."""

    def __init__(self) -> None:
        self._pairs: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    def copy(self) -> Counters:
        """A copy with the same pairs. Pairs added to the copy are not added here."""
        made = Counters()
        made._pairs = {storage: pairs.copy() for storage, pairs in self._pairs.items()}
        return made

    def add(self, source: torch.Tensor, made: torch.Tensor) -> None:
        """Note an existing copy, which keeps its counter."""
        self._pairs.setdefault(source.untyped_storage()._cdata, []).append((source, made))

    def share(self, sources: Iterable[torch.Tensor], plain: dict[int, torch.Tensor]) -> None:
        """Replace the copies in `plain` by ones that share counters as their sources do."""
        by_storage: dict[int, list[torch.Tensor]] = {}
        for source in sources:
            if is_counted(source) and is_counted(plain[id(source)]):
                by_storage.setdefault(source.untyped_storage()._cdata, []).append(source)
        for storage, members in by_storage.items():
            pairs = [pair for pair in self._pairs.get(storage, ()) if all(map(is_counted, pair))]
            labels = _labels([source for source, _ in pairs] + members)
            first = {label: made for label, (_, made) in zip(labels, pairs, strict=False)}
            for source, label in zip(members, labels[len(pairs) :], strict=True):
                anchor = first.setdefault(label, plain[id(source)])
                if anchor is plain[id(source)]:
                    self.add(source, anchor)
                else:
                    plain[id(source)] = _counted_with(plain[id(source)], anchor)


def is_counted(tensor: torch.Tensor) -> bool:
    """Whether torch counts writes to a tensor, and its copies can share a counter."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_nested
        and not isinstance(tensor, FakeTensor)
        and not is_wrapper(tensor)
        and _has_version(tensor)
    )


def _has_version(tensor: torch.Tensor) -> bool:
    # A tensor of inference mode never counts, also when it has got ordinary memory since.
    try:
        version_of(tensor)
    except RuntimeError:
        return False
    return True


def _counted_with(plain: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
    """The same tensor, with the version counter of another one."""
    if not fits_in_place(anchor, plain):
        return plain  # one of them is on meta: the two cannot share a counter
    # Not detach(): torch would refuse to resize what it returns.
    made = of_class(torch.Tensor, anchor, False)
    made.data = plain
    return made


def _labels(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Numbers that are equal exactly for tensors that share a counter."""
    before = [tensor._version for tensor in tensors]
    if len(set(before)) == len(before):
        return before
    counted, labels = tuple(tensors), list[int]()
    put_back = partial(set_versions, counted, tuple(before))
    try:
        at_once(
            [
                partial(set_versions, counted, tuple(range(len(counted)))),
                partial(labels.extend, map(version_of, counted)),
                put_back,
            ]
        )
    except BaseException:
        put_back()
        raise
    return labels
