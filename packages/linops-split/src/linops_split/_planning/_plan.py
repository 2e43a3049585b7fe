"""Choosing batch sizes for a budget of memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral

import torch
from torch import Tensor

from linops_core import NamedLinop, SplitError
from memmap import html_table
from nameddim import NamedDimension

from .._slices import Sizes, slices_along
from ._plan_budget import budget_on, bytes_text
from ._plan_input import device_of, dims_to_cut, input_of
from ._plan_search import Search
from ._plan_trial import WORKS, Trial


@dataclass(frozen=True)
class BatchPlan:
    """Batch sizes that were chosen for a budget, and why; ``str`` of it says so in words."""

    batch_sizes: dict[NamedDimension, int]
    """What to give to ``batch_linop``: the dimensions that are cut, none where all fits uncut."""
    peak: int
    """Bytes that are predicted to be allocated at a time."""
    budget: int
    """Bytes that could be."""
    uncut_peak: int
    """Bytes that are predicted for the operator as it is."""
    counts: dict[NamedDimension, int]
    """Into how many tiles each dimension is cut."""
    device: torch.device
    """Where the operator works."""
    work: tuple[str, ...]
    """What was run to find out."""

    @property
    def n_tiles(self) -> int:
        """The number of tiles."""
        return prod(self.counts.values())

    def _repr_html_(self) -> str:
        rows = [
            [str(dim), str(self.counts[dim]), str(length)]
            for dim, length in self.batch_sizes.items()
        ]
        columns = ["dimension", "tiles", "length"]
        return html_table(columns, rows, str(self), ("tiles", "length"))

    def __str__(self) -> str:
        """Return what was chosen and why."""
        verb = "takes" if len(self.work) == 1 else "take"
        needs = f"{' and '.join(self.work)} {verb} {bytes_text(self.peak)}"
        budget = f"of {bytes_text(self.budget)} on {self.device}"
        if not self.batch_sizes:
            return f"uncut: {needs} {budget}"
        cuts = ", ".join(
            f"{dim} into {self.counts[dim]} tiles of {length}"
            for dim, length in self.batch_sizes.items()
        )
        return f"cut {cuts}: {needs} {budget}; uncut {bytes_text(self.uncut_peak)}"


def plan_batches(
    linop: NamedLinop,
    memory: int | torch.device | None = None,
    dims: Sequence[NamedDimension | str] | None = None,
    *,
    work: str | Sequence[str] = ("forward", "adjoint"),
    like: Tensor | None = None,
    sizes: Sizes | None = None,
    dtype: torch.dtype | None = None,
    max_tiles: int = 64,
) -> BatchPlan:
    """Choose the batch sizes with which :func:`batch_linop` stays within a budget of memory.

    The operator is run in tiles without data: no tensor is allocated, no value is read. What
    counts is all that a call allocates at a time, its result included, beyond the input and the
    weights, which are there; without autograd, which keeps the intermediates of all tiles.

    Parameters
    ----------
    linop : NamedLinop
    memory : int or torch.device, optional
        The budget in bytes, or the operator's device for what it has free, as without it.
    dims : sequence of dimensions, optional
        That may be cut, the preferred ones first. By default all that can be and whose size
        is known: those of the output, then of the input, then inner ones.
    work : {"forward", "adjoint", "normal"} or sequence of them
        What has to fit, each by itself.
    like : Tensor, optional
        An input: of its size, strides and dtype, also without data (fake, meta). Instead of it:
    sizes : mapping of dimension to int, optional
        Of the dimensions of the input that the operator does not know; ``batch_linop`` needs them
        as well, where it cuts them.
    dtype : torch.dtype, optional
        Of the input; needed where no weight is complex. By default that of complex weights.
    max_tiles : int
        The search ends there: tiles cost time, and each is tried.

    Returns
    -------
    BatchPlan
        With ``batch_sizes``; no dimension by itself could be cut into one tile less.

    Raises
    ------
    SplitError
        If a dimension cannot be cut, a size is none, or nothing fits: it names the smallest budget
        with which something does.
    ValueError
        If the input is not known or does not fit, the operator has threads, reads values, or is on
        several devices, or ``memory``, ``work`` or ``max_tiles`` is none.
    TypeError
        If ``linop`` is no operator, ``memory`` neither an integer nor a device, or ``dims``,
        ``like``, ``sizes`` or ``dtype`` not of its type.

    Notes
    -----
    Starting with the whole operator, the search repeatedly halves the tiles of the dimension that
    lowers the peak most, until the work fits. Then it makes the tiles of each dimension as few as
    fit. The plan is a local optimum: another combination may have fewer tiles.

    Examples
    --------
    >>> from linops_core import FFT, Dense
    >>> from linops_split import batch_linop
    >>> maps = torch.zeros(8, 64, 64, dtype=torch.complex64)
    >>> A = FFT(2) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    >>> plan = plan_batches(A, 2**18, work="adjoint")
    >>> print(plan)
    cut C into 4 tiles of 2: adjoint takes 224 KiB of 256 KiB on cpu; uncut 320 KiB
    >>> A_batched = batch_linop(A, plan.batch_sizes)
    """
    works = _works(work)
    slices_along(linop, {}, sizes)  # refuses what is no operator, and sizes that cannot be
    device = device_of(linop, like, memory)
    budget = budget_on(device, memory)
    if isinstance(max_tiles, bool) or not isinstance(max_tiles, Integral) or max_tiles < 1:
        raise ValueError(f"plan_batches: max_tiles must be a positive integer, got {max_tiles!r}")
    _refuse_threads(linop)
    lengths = dims_to_cut(linop, dims, sizes)
    trial = Trial(linop, input_of(linop, like, sizes, dtype), device, works, sizes)

    def measure(batches: tuple[int, ...]) -> int:
        pairs = zip(lengths.items(), batches, strict=True)
        return trial.peak({dim: batch for (dim, length), batch in pairs if batch < length})

    search = Search(tuple(lengths.values()), measure, int(max_tiles))
    counts = search.within(budget)
    if counts is None:
        raise SplitError(
            f"{linop.signature}: the memory must be at least {search.lowest_peak} bytes for "
            f"{' and '.join(works)} in at most {max_tiles} tiles along "
            f"({', '.join(map(str, lengths))}), got {budget}"
        )
    chosen = zip(lengths, counts, search.lengths(counts), strict=True)
    cut = [(dim, count, length) for dim, count, length in chosen if count > 1]
    return BatchPlan(
        batch_sizes={dim: length for dim, _, length in cut},
        peak=search.peak(counts),
        budget=budget,
        uncut_peak=search.peak((1,) * len(lengths)),
        counts={dim: count for dim, count, _ in cut},
        device=device,
        work=works,
    )


def _works(work: object) -> tuple[str, ...]:
    works = tuple(work) if isinstance(work, Iterable) and not isinstance(work, str) else (work,)
    known = tuple(name for name in works if isinstance(name, str) and name in WORKS)
    if not works or known != works:
        raise ValueError(f"plan_batches: work must be some of {list(WORKS)}, got {work!r}")
    return known


def _refuse_threads(linop: NamedLinop) -> None:
    for part in linop.modules():
        if isinstance(part, NamedLinop) and getattr(part, "threaded", False):
            raise ValueError(
                f"{part.signature}: to be planned, an operator must have no threads, which hold "
                "at a time what chance decides, got threaded=True"
            )
