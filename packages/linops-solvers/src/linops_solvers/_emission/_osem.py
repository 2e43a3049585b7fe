"""OSEM: expectation maximisation with one subset of the counts after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from torch import Tensor

from linops_core import Concat, NamedLinop, Role
from linops_core.siblings import axis_of, check_integer, check_vector
from nameddim import ND

from .._shared._checks import Operator
from .._shared._options import Checkpointed, with_options
from .._shared._stacked import (
    Operators,
    StackedOperators,
    Vectors,
    one_per_operator,
    stacked_operator,
)
from ._counted import Backgrounds, Counted, one_background_each
from ._expectation_maximization import ExpectationMaximization
from ._mlem import mlem

_NAME = "osem"


@with_options(Checkpointed, like=mlem)
def osem(
    A: Operators,
    y: Vectors,
    x0: Tensor | None = None,
    max_num_iters: int = 10,
    tol: float = 0.0,
    *,
    subsets: Mapping[str, int] | None = None,
    background: Backgrounds = 0.0,
    adjoint: Sequence[Operator] | None = None,
    **watching: Unpack[Checkpointed],
) -> Tensor:
    r"""The x >= 0 that makes Poisson counts about most likely, by ordered subsets.

    A step goes once through all counts. It does a step of :func:`mlem` with each subset alone, the
    next one starting from the result of the last one:

    .. math:: x \leftarrow \frac{x}{A_k^H 1} \, A_k^H \frac{y_k}{A_k x + b_k}, \quad
              k = 1, 2, \dots, K .

    With K balanced subsets, one step does about as much as K steps of :func:`mlem` in the time of
    one. If no x fits all subsets, as with noise, the steps end in a cycle near the maximum and not
    at it: use fewer subsets, or :func:`mlem`, for the last steps. An entry of x that one of the
    subsets does not see becomes 0, so each subset must see all of x.

    Memory is that of :func:`mlem` and one vector of the input for each further subset. With a
    callback or a bar, a step applies all but the first operator once more, for the objective.

    Parameters
    ----------
    A : sequence of NamedLinop or functions, or one NamedLinop
        The operator of each subset; or one operator, with ``subsets``.
    y : sequence of Tensor, or one Tensor
        The counts of each subset; of one operator, all counts.
    subsets : mapping of a dimension to int, optional
        The number of subsets of one operator, such as ``{"A": 8}`` for every eighth angle: subset
        k has the indices k, k + 8, k + 16 and so on along this dimension of the output. Each index
        becomes a tile of its own. A sequence with an operator made for each subset is faster: 6
        times for X-rays of 64 x 64 pixels with 64 angles in 8 subsets.
    max_num_iters : int
        The largest number of steps through all counts.
    adjoint : sequence of functions, optional
        One for each operator.
    callback
        Here they are those of all counts.

    Raises
    ------
    TypeError
        If there is one operator without ``subsets``, or several with it; see also :func:`mlem`.
    ValueError
        If the dimension cannot be cut into so many subsets; see also :func:`mlem`.

    References
    ----------
    H. M. Hudson and R. S. Larkin, "Accelerated image reconstruction using ordered subsets of
    projection data", IEEE Transactions on Medical Imaging 13 (1994), 601-609.

    Examples
    --------
    >>> import torch
    >>> from linops_core import Dense
    >>> matrix = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 3.0], [3.0, 1.0]])
    >>> A = Dense(matrix, ("M", "N"), ("N",), ("M",))
    >>> y = A(torch.tensor([3.0, 4.0]))
    >>> osem(A, y, max_num_iters=100, subsets={"M": 2}).round(decimals=3)
    tensor([3., 4.])
    """
    if subsets is not None:
        A, y, background = _along(A, y, background, subsets)
    stack, _ = stacked_operator(_NAME, "A", A, adjoint)
    if not isinstance(stack, StackedOperators):
        raise TypeError(
            f"{_NAME}: A must be a sequence with an operator for each subset, got {A!r}; for one "
            'operator give subsets=, as {"A": 8}, or use mlem'
        )
    counts = one_per_operator(_NAME, "y", y, stack, "tensor")
    backgrounds = one_background_each(_NAME, background, stack)
    space = stack.spaces()[0]

    def counted() -> list[Counted]:
        parts = zip(stack.operators, stack.adjoints, counts, backgrounds, strict=True)
        return [
            Counted(_NAME, *part, name=f"[{number}]", input_space=space)
            for number, part in enumerate(parts)
        ]

    return ExpectationMaximization(_NAME, x0, max_num_iters, tol, watching, space, counted).solve()


def _along(
    A: Operators, y: Vectors, background: Backgrounds, subsets: Mapping[str, int]
) -> tuple[list[NamedLinop], list[Tensor], Backgrounds]:
    """Return the operators, counts and backgrounds of interleaved subsets."""
    if not isinstance(A, NamedLinop):
        raise TypeError(
            f"{_NAME}: subsets must be left out unless A is one NamedLinop, got {A!r}; a sequence "
            "of operators has its subsets already"
        )
    if not isinstance(subsets, Mapping) or len(subsets) != 1:
        raise TypeError(
            f'{_NAME}: subsets must be a mapping of one dimension to a number, as {{"A": 8}}, got '
            f"{subsets!r}"
        )
    ((name, count),) = subsets.items()
    dim = ND.infer(name)
    check_integer(_NAME, f"the number of subsets along {dim}", count, 1)
    if A.role(dim) is not Role.OUTPUT:
        raise ValueError(
            f"{_NAME}: {dim} must be a dimension of the output alone that can be sliced, got "
            f"{A.signature}, where it is {A.role(dim) or 'none'}"
        )
    check_vector(_NAME, "y", y)  # type: ignore[arg-type]
    axis = axis_of(A.oshape.index(dim), A.oshape)
    size = y.shape[axis]  # type: ignore[union-attr]
    if count > size:
        raise ValueError(
            f"{_NAME}: the subsets along {dim} must be at most its {size} indices, got {count}"
        )
    tiles = A.tiles_along(dim, [slice(index, index + 1) for index in range(size)])
    operators: list[NamedLinop] = []
    for first in range(count):
        row = tiles[first::count]
        operators.append(row[0] if len(row) == 1 else Concat(*row, odim=dim, osizes=[1] * len(row)))
    parts = range(count)

    def every(x: Tensor, k: int) -> Tensor:
        slices = [slice(None)] * x.ndim
        slices[axis] = slice(k, None, count)
        return x[tuple(slices)]

    if isinstance(background, Tensor):
        whole = background.expand(y.shape)  # type: ignore[union-attr]
        background = [every(whole, k) for k in parts]
    return operators, [every(y, k) for k in parts], background  # type: ignore[arg-type]
