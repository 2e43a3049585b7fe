"""Tests for operators that can be cut: the tiles must make the whole, for random ways to cut.

Needs hypothesis (the extra ``testing``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from hypothesis import strategies as st
from torch import Tensor

from linops_core import Dense, Diagonal, NamedLinop, Role, Window
from linops_core.testing import inner
from nameddim import ND, NamedDimension

from ._batch import batch_linop
from ._split import split_linop

__all__ = [
    "DependentGraph",
    "assert_tiles_make_the_whole",
    "batch_sizes",
    "cuttable_dims",
    "dependent_graphs",
]


def cuttable_dims(linop: NamedLinop) -> list[NamedDimension]:
    """Return the dimensions along which ``linop`` can be cut, in alphabetical order.

    Examples
    --------
    >>> from linops_core import FFT
    >>> cuttable_dims(FFT(1, batch_shape=("C",)))  # the size of C is not known
    []
    """
    return [
        dim
        for dim in sorted(linop.dims, key=str)
        if linop.role(dim) not in (None, Role.OPAQUE) and linop.size(dim)
    ]


@st.composite
def batch_sizes(draw: st.DrawFn, linop: NamedLinop) -> dict[NamedDimension, int]:
    """Draw batch sizes for some of the dimensions that can be cut, in any order.

    Sizes range from 1 to one more than the size of the dimension, so that there are tiles of
    one element, uneven tiles, and a single tile.
    """
    order = draw(st.permutations(cuttable_dims(linop)))
    chosen = order[: draw(st.integers(0, len(order)))]
    return {dim: draw(st.integers(1, (linop.size(dim) or 0) + 1)) for dim in chosen}


Cutter = Callable[[NamedLinop, Mapping[str, int]], NamedLinop]


@dataclass(frozen=True)
class DependentGraph:
    """A computation with operators whose weights, inputs and outputs depend on each other.

    Weights and inputs are views of one leaf, computed from it, or results of earlier steps.

    Parameters
    ----------
    steps : sequence of tuple
        For each step: which weight and which vector, what is applied, and batch sizes of M and N.
    """

    n = 3
    steps: Sequence[tuple[int, int, str, tuple[int, int]]]

    def __call__(self, cut: Cutter, leaf: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return a scalar, and the tensors on the way to it, with the leaf.

        Parameters
        ----------
        cut : callable
            Returns an operator cut by batch sizes, or the operator itself.
        leaf : Tensor
            Shape (12,).
        """
        n = self.n
        matrix = leaf[: n * n].view(n, n)
        weights = [leaf[:n], 2 * leaf[n : 2 * n], leaf[1::4], matrix, matrix.T, matrix.conj()]
        vectors = [leaf[-n:], 2 * leaf[:n], leaf.detach()[:n].clone(), weights[0]]
        for of_weight, of_vector, how, (rows, columns) in self.steps:
            weight, x = weights[of_weight % len(weights)], vectors[of_vector % len(vectors)]
            A: NamedLinop = Diagonal(weight, "N") if weight.ndim == 1 else Dense(weight, "MN")
            A = cut(A, {"N": columns} | ({"M": rows} if weight.ndim == 2 else {}))
            y = A.H(A(x)) if how == "there and back" else {"A": A, "H": A.H, "N": A.N}[how](x)
            y = y / (1 + y.abs().square().sum())  # keeps values of long graphs in range
            weights.append(y)
            vectors.append(y)
        loss = torch.stack([y.abs().square().sum() for y in vectors]).sum()
        return loss, [leaf, *weights, *vectors]

    def derivatives(
        self, cut: Cutter, leaf: Tensor, of: Sequence[int], order: int
    ) -> list[Tensor | None]:
        """Return gradients to some of the tensors; with order 2, also to the leaf of their norms.

        Parameters
        ----------
        cut, leaf
            As for a call.
        of : sequence of int
            Positions of tensors, counted round and round.
        order : int
            1 or 2.
        """
        loss, tensors = self(cut, leaf)
        chosen = [tensors[number % len(tensors)] for number in of]
        chosen = [tensor for tensor in chosen if tensor.requires_grad] or [leaf]
        gradients = torch.autograd.grad(loss, chosen, create_graph=order > 1, allow_unused=True)
        norms = [g.abs().square().sum() for g in gradients if g is not None and g.requires_grad]
        if not norms:
            return [*gradients]
        return [*gradients, *torch.autograd.grad(torch.stack(norms).sum(), leaf, allow_unused=True)]


def dependent_graphs() -> st.SearchStrategy[DependentGraph]:
    """Draw computations of one to four steps; see :class:`DependentGraph`.

    Examples
    --------
    >>> graph = DependentGraph([(0, 3, "A", (1, 2))])  # D(w) w
    >>> loss, _ = graph(lambda linop, batch_sizes: batch_linop(linop, batch_sizes), torch.ones(12))
    >>> round(loss.item(), 4)
    21.1875
    """
    numbers, sizes = st.integers(0, 11), st.tuples(st.integers(1, 3), st.integers(1, 3))
    how = st.sampled_from(["A", "H", "N", "there and back"])
    steps = st.lists(st.tuples(numbers, numbers, how, sizes), min_size=1, max_size=4)
    return st.builds(DependentGraph, steps)


def assert_tiles_make_the_whole(
    linop: NamedLinop,
    batch_sizes: Mapping[str, int] | Mapping[NamedDimension, int],
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Check that the tiles of an operator make the whole operator.

    Each tile is placed where ``split_linop`` says; the sum must be the operator. A tile must read
    and write no more than its supports. The operator that works tile by tile must return the same,
    and so must its adjoint and its normal operator, with the same names and sizes. All are applied
    to random vectors, which show every difference of linear operators.

    Parameters
    ----------
    linop : NamedLinop
    batch_sizes : mapping of dimension to int
        As in :func:`linops_split.split_linop`.
    sizes : mapping of dimension to int, optional
        Sizes of input dimensions that the operator does not know.

    Raises
    ------
    AssertionError
        If the check fails. The message says where.
    SplitError
        If the operator cannot be cut in this way.

    Examples
    --------
    >>> from linops_core import Dense
    >>> assert_tiles_make_the_whole(Dense(torch.rand(4, 5)), {"M": 3, "N": 2})
    """
    given = {ND.infer(dim): n for dim, n in (sizes or {}).items() if dim in linop.dims}
    lengths = [given.get(dim, linop.size(dim)) for dim in linop.ishape]
    assert None not in lengths, f"give the sizes of {linop.ishape}, got {lengths}"
    where = f"{linop.signature} cut by {dict(batch_sizes)}"
    batched = batch_linop(linop, batch_sizes, sizes=given)
    random = partial(
        torch.randn, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)
    )
    x = random(lengths)
    whole = linop(x) + 0j
    total, y = torch.zeros_like(whole), random(whole.shape)
    grids = split_linop(linop, batch_sizes, sizes=given)
    for tile, ibatch, obatch in zip(*(grid.flat for grid in grids), strict=True):
        part = x[(*ibatch,)]
        result = tile(part) + 0j
        if window := _supports(tile):
            narrow = _within(window, tile, part, result)
            _assert_close(narrow, result, f"{tile.signature} within its supports {dict(window)}")
        total[(*obatch,)] += result
    _assert_close(total, whole, f"the tiles of {where}")
    _assert_close(batched(x) + 0j, whole, where)
    product = partial(inner, is_complex_linear=linop.is_complex_linear)
    _assert_close(product(x, batched.H(y)), product(whole, y), f"the adjoint of {where}")
    _assert_close(batched.N(x) + 0j, batched.H(whole) + 0j, f"the normal of {where}")
    for one, other in ((linop, batched), (linop.N, batched.N)):
        if (other.ishape, other.oshape) != (one.ishape, one.oshape):
            raise AssertionError(f"{where}: {other.signature}, not {one.signature}")
        for dim in one.shape.dims:
            if one.size(dim) not in (None, other.size(dim)):
                raise AssertionError(
                    f"{where}: {dim} has size {other.size(dim)}, not {one.size(dim)}"
                )


def _supports(tile: NamedLinop) -> Window:
    supports = {dim: tile.support(dim) for dim in tile.dims}
    return {dim: piece for dim, piece in supports.items() if piece is not None}


def _within(window: Window, tile: NamedLinop, x: Tensor, like: Tensor) -> Tensor:
    """Return the result of the tile within ``window``, with zeros around it."""
    result = torch.zeros_like(like)
    if all(piece.start < piece.stop for piece in window.values()):
        reads, writes = (
            [window.get(d, slice(None)) for d in s] for s in (tile.ishape, tile.oshape)
        )
        result[(*writes,)] = tile.split(tile, window)(x[(*reads,)])
    return result


def _assert_close(actual: Tensor, wanted: Tensor, what: str) -> None:
    if actual.shape != wanted.shape:
        raise AssertionError(f"{what}: shape {tuple(actual.shape)}, not {tuple(wanted.shape)}")
    error = float((actual - wanted).detach().abs().max()) if wanted.numel() else 0.0
    if not error <= 1e-10 * (1 + float(wanted.detach().abs().sum())):
        raise AssertionError(f"{what}: off by {error:.3g}")
