"""Which of many tensors overlap: all pairs, exactly, in about the time it takes to list them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import torch

from ._address import places_of
from ._arrays import Array
from ._boxes import boxes_of
from ._join import Pairs, box_pairs
from ._layout import Layout
from ._overlap import layouts_overlap
from ._view import View


def overlapping_pairs(
    tensors: Iterable[torch.Tensor | Array | View],
) -> list[tuple[int, int]]:
    """Pairs of tensors that share at least one byte, exactly.

    Slices of one tensor are boxes of a grid and are joined as such. Other views are asked one by
    one where the smallest boxes around them meet. For N slices of one storage the time is about
    that of sorting N and of listing the pairs.

    Parameters
    ----------
    tensors : iterable of torch.Tensor, numpy.ndarray or View
        Strided tensors, on any devices.

    Returns
    -------
    list of (int, int)
        Positions ``i < j``, ascending.

    Raises
    ------
    TypeError, ValueError
        As for `footprint`.

    Examples
    --------
    >>> x = torch.zeros(4, 4)
    >>> overlapping_pairs([x[0], x[1], x[:, 0], torch.zeros(2)])
    [(0, 2), (1, 2)]
    """
    spaces: dict[Hashable, tuple[list[int], list[Layout], set[int]]] = {}
    for position, space, address, layout in places_of(tensors):
        positions, layouts, origins = spaces.setdefault(space, ([], [], set()))
        positions.append(position)
        layouts.append(layout)
        origins.add(address)
    found = [np.empty(0, np.int64)]
    n = 1 + max((positions[-1] for positions, _, _ in spaces.values()), default=0)
    for positions, layouts, origins in spaces.values():
        where = np.array(positions)
        for first, second in layout_pairs(layouts, min(origins)):
            first, second = where[first], where[second]
            found.append(np.minimum(first, second) * n + np.maximum(first, second))
    first, second = np.divmod(np.sort(np.concatenate(found)), n)
    numbers = np.arange(n).astype(np.object_)  # one object for each position, in many pairs
    return list(zip(numbers[first].tolist(), numbers[second].tolist(), strict=True))


def layout_pairs(layouts: Sequence[Layout], origin: int) -> Iterator[Pairs]:
    """Positions of sets of bytes of one address space that overlap: each pair once, in portions.

    Slices of one tensor are best counted from the origin, the start of its storage.
    """
    boxes = boxes_of(layouts, (origin, min(layout.start for layout in layouts)))
    for first, second in box_pairs(boxes.low, boxes.high):
        met = boxes.is_box[first] & boxes.is_box[second]
        unsure = np.flatnonzero(~met)
        asked = zip(first[unsure].tolist(), second[unsure].tolist(), strict=True)
        met[unsure] = [layouts_overlap(layouts[a], layouts[b]) for a, b in asked]
        if met.any():
            yield first[met], second[met]
