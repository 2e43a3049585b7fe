"""plan_batches: choose batch sizes for a memory budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor
from tqdm.auto import tqdm

from linops_core import Composite, NamedLinop, SplitError
from linops_core.siblings import bytes_text, is_size, method_of, submodules_of
from memmap import html_table
from nameddim import NamedDimension

from .._batch_sizes import Sizes, slices_along
from ._plan_budget import Memory, budget_on
from ._plan_input import device_of, dims_to_cut, input_of, sizes_of
from ._plan_search import Search
from ._plan_trial import WORK_OPERATORS, Trial

_QUIET_S = 2.0
"""Seconds after which a search shows its progress."""


@dataclass(frozen=True)
class BatchPlan:
    """Batch sizes for a budget, with the reasons; ``print`` it to read them."""

    batch_sizes: dict[NamedDimension, int]
    """Pass this to ``batch_linop``: the dimensions to cut; empty if everything fits uncut."""
    peak: int
    """The predicted peak of allocated memory in bytes."""
    budget: int
    """The memory budget in bytes."""
    uncut_peak: int
    """The predicted peak of the uncut operator in bytes."""
    counts: dict[NamedDimension, int]
    """The number of tiles along each dimension that is cut."""
    device: torch.device
    """The device on which the operator works."""
    work: tuple[str, ...]
    """The computations that were tried."""
    methods: tuple[str, ...] = ()
    """How parts work that choose it themselves, such as "NUFFT by finufft"."""
    sizes: dict[NamedDimension, int] = field(default_factory=dict)
    """Pass this to ``batch_linop``, too: sizes of dimensions to cut that the operator lacks."""

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
        """Return the choice and the reasons as text."""
        verb = "takes" if len(self.work) == 1 else "take"
        needs = f"{' and '.join(self.work)} {verb} {bytes_text(self.peak)}"
        budget = ", ".join([f"of {bytes_text(self.budget)} on {self.device}", *self.methods])
        if not self.batch_sizes:
            return f"uncut: {needs} {budget}"
        cuts = ", ".join(
            f"{dim} into {self.counts[dim]} tiles of {length}"
            for dim, length in self.batch_sizes.items()
        )
        return f"cut {cuts}: {needs} {budget}; uncut {bytes_text(self.uncut_peak)}"


def plan_batches(
    linop: NamedLinop,
    memory: Memory | None = None,
    dims: Sequence[NamedDimension | str] | None = None,
    *,
    work: str | Sequence[str] = ("forward", "adjoint"),
    like: Tensor | None = None,
    sizes: Sizes | None = None,
    dtype: torch.dtype | None = None,
    max_tiles: int = 64,
) -> BatchPlan:
    """Choose the batch sizes with which :func:`batch_linop` stays within a memory budget.

    The operator runs in tiles without data: no tensor is allocated and no value is read. Everything
    that a call allocates counts, including the result, but not the input and the weights. Autograd
    is off, because it would keep the intermediates of all tiles.

    Parameters
    ----------
    linop : NamedLinop
    memory : number, str or torch.device, optional
        The budget in bytes, also as text (``"1e9"``, ``"200 MB"``, ``"1.5gib"``), or the device of
        the operator to use its free memory. The default is the free memory of that device.
    dims : sequence of dimensions, optional
        The dimensions that may be cut, preferred ones first. Default: all that can be cut and have
        a known size: first those of the output, then of the input, then inner ones.
    work : {"forward", "adjoint", "normal"} or sequence of them
        The computations that must fit, each alone.
    like : Tensor, optional
        An input, which gives the sizes, strides and dtype. It needs no data (fake, meta).
    sizes : mapping of dimension to int, optional
        Instead of ``like``: sizes of input dimensions that the operator does not know.
    dtype : torch.dtype, optional
        Instead of ``like``: the dtype of the input. Default: the dtype of the complex weights;
        needed if there are none.
    max_tiles : int
        The largest number of tiles to try. The search makes each tile, which takes time.

    Returns
    -------
    BatchPlan
        ``batch_sizes`` and the reasons. No single dimension could be cut into one tile less.

    Raises
    ------
    SplitError
        If a dimension cannot be cut, if a size is invalid, or if nothing fits. Then the message
        gives the smallest budget that is enough.
    ValueError
        If the input is not known or does not fit; if the operator uses threads, reads values or is
        on several devices; or if ``memory``, ``work`` or ``max_tiles`` is invalid.
    TypeError
        If ``linop`` is not an operator, or another argument has a wrong type.

    Notes
    -----
    The plan is a local optimum: another combination may have fewer tiles.

    Examples
    --------
    >>> from linops_core import FFT, Dense
    >>> from linops_split import batch_linop
    >>> maps = torch.zeros(8, 64, 64, dtype=torch.complex64)
    >>> A = FFT(2) @ Dense(maps, ("C", "Nx", "Ny"), ("Nx", "Ny"), ("C", "Nx", "Ny"))
    >>> plan = plan_batches(A, 2**18, work="adjoint")
    >>> print(plan)
    cut C into 4 tiles of 2: adjoint takes 224.0 KiB of 256.0 KiB on cpu; uncut 320.0 KiB
    >>> A_batched = batch_linop(A, plan.batch_sizes, sizes=plan.sizes)
    """
    works = _works(work)
    slices_along(linop, {}, sizes)  # raises if linop is not an operator or sizes are invalid
    device = device_of(linop, like, memory)
    budget = budget_on(device, memory)
    if not is_size(max_tiles):
        raise ValueError(f"plan_batches: max_tiles must be a positive integer, got {max_tiles!r}")
    _refuse_threads(linop)
    known = sizes if like is None else sizes_of(linop, like)
    lengths = dims_to_cut(linop, dims, known)
    trial = Trial(linop, input_of(linop, like, sizes, dtype), device, works, known)

    # tqdm shows nothing in the first seconds, and then how many cuts were tried.
    bar = tqdm(desc="plan_batches", unit=" cuts", delay=_QUIET_S, leave=False)

    def measure(batches: tuple[int, ...]) -> int:
        bar.update()
        pairs = zip(lengths.items(), batches, strict=True)
        return trial.peak({dim: batch for (dim, length), batch in pairs if batch < length})

    search = Search(tuple(lengths.values()), measure, int(max_tiles))
    with bar:
        uncut_peak = search.peak((1,) * len(lengths))
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
        uncut_peak=uncut_peak,
        counts={dim: count for dim, count, _ in cut},
        device=device,
        work=works,
        methods=_methods(linop),
        sizes={dim: lengths[dim] for dim, _, _ in cut if linop.size(dim) is None},
    )


def _works(work: object) -> tuple[str, ...]:
    works = tuple(work) if isinstance(work, Iterable) and not isinstance(work, str) else (work,)
    result = tuple(name for name in works if isinstance(name, str) and name in WORK_OPERATORS)
    if not works or result != works:
        raise ValueError(
            f"plan_batches: work must be one or several of {list(WORK_OPERATORS)}, got {work!r}"
        )
    return result


def _methods(linop: NamedLinop) -> tuple[str, ...]:
    operators = [operator for operator in submodules_of(linop) if isinstance(operator, NamedLinop)]
    methods = [(operator.name, method_of(operator)) for operator in operators]
    return tuple(dict.fromkeys(f"{name} by {how}" for name, how in methods if how is not None))


def _refuse_threads(linop: NamedLinop) -> None:
    for module in submodules_of(linop):
        if isinstance(module, Composite) and module.threaded:
            raise ValueError(
                f"{module.signature}: an operator to be planned must not use threads, because the "
                "number of tiles that run at once is then not known, got threaded=True"
            )
