"""The dot test of an adjoint, which finds the factor of a wrong one, and of tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from types import EllipsisType
from typing import TypeVar, cast

import torch
from torch import Tensor

from memmap.siblings import check_flags
from nameddim import ELLIPSES, NamedDimension

from ._base._dimensions import may_be_cut, named_axes
from ._base._linop import NamedLinop
from ._base._sizes import input_space
from ._base._tile import SplitError
from ._base._totals import WHOLE, Totals, totals_of
from ._kernels._dtype import check_vector, real_part
from ._kernels._inner_products import norm, vdot
from ._numbers import check_integer

Item = TypeVar("Item")


class AdjointError(ValueError):
    """An adjoint is wrong; the message says by which factor."""

    __module__ = "linops_core"  # a traceback shows the name that users import


def inner(x: Tensor, y: Tensor, *, is_complex_linear: bool = True) -> Tensor:
    r"""Return the inner product :math:`\langle x, y \rangle = \sum_n \bar x_n y_n`.

    It has no dimensions, and the dtype to which x and y promote.

    Parameters
    ----------
    x, y : Tensor
    is_complex_linear : bool
        If False, the real part is returned: the inner product for operators that are linear over
        the reals only, see ``A.is_complex_linear``.

    Raises
    ------
    TypeError
        If x or y is not a tensor of a floating or complex dtype.
    ValueError
        If the shapes differ; nothing is broadcast.

    Examples
    --------
    >>> inner(torch.tensor([1j, 1.0]), torch.tensor([1j, 2.0]))
    tensor(3.+0.j)
    """
    check_flags("inner", is_complex_linear=is_complex_linear)
    check_vector("inner", "x", x)
    check_vector("inner", "y", y)
    if x.shape != y.shape:
        raise ValueError(
            f"inner: x and y must have one shape, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    dtype = torch.promote_types(x.dtype, y.dtype)
    product = vdot(x.to(dtype), y.to(dtype))
    return product if is_complex_linear else real_part(product)


def is_adjoint(
    A: NamedLinop, x: Tensor, y: Tensor, rtol: float | None = None, atol: float = 0.0
) -> bool:
    r"""Whether :math:`\langle A x, y \rangle = \langle x, A^H y \rangle` for these two vectors.

    For an operator that is linear over the reals only, real parts are compared. If several
    processes have parts of the vectors, the products are over the whole vectors; all processes must
    call it and get the same answer.

    Parameters
    ----------
    A : NamedLinop
    x, y : Tensor
        Vectors of the shapes of its input and output; the parts of this process.
    rtol, atol : float
        Largest relative and absolute difference; the larger bound counts. rtol is relative to the
        product of the norms of the vectors, and by default the square root of the precision.

    Examples
    --------
    >>> from linops_core import Scalar
    >>> is_adjoint(Scalar(2j), torch.ones(3), torch.ones(3))
    True
    """
    with torch.no_grad():
        image, back = A(x), A.H(y)
        left, right = _both(A, image, y, x, back)
        if rtol is None:
            rtol = torch.finfo(torch.promote_types(left.dtype, right.dtype)).eps ** 0.5
        of_input, of_output = _totals(A)
        scale = max(
            _norm(of_output, image) * _norm(of_output, y),
            _norm(of_input, x) * _norm(of_input, back),
        )
        is_equal = abs(complex(left) - complex(right)) <= max(atol, rtol * scale)
    return all(_gathered(of_input, is_equal))


def dottest(
    A: NamedLinop,
    sizes: Mapping[str, int] | None = None,
    *,
    dtypes: Sequence[torch.dtype] | None = None,
    trials: int = 3,
    rtol: float | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    like: Tensor | None = None,
) -> None:
    r"""Check :math:`\langle A x, y \rangle = \langle x, A^H y \rangle` on random vectors.

    If the adjoint is off by the same factor for all vectors, the error says so. For an operator
    that is linear over the reals only (``A.is_complex_linear``), real parts are compared. Then A
    and its adjoint are cut into two halves along each dimension that can be cut, which must make up
    the whole. Over several processes, all must call it, and all have the same outcome: whole
    vectors are the same on all processes, and each process draws its own parts; nothing is cut.

    Parameters
    ----------
    A : NamedLinop
    sizes : mapping of dimension to int, optional
        Sizes of the input dimensions that the operator does not know. A ``...`` that is not given
        stands for no dimensions.
    dtypes : sequence of torch.dtype, optional
        Dtypes of the vectors; by default the dtype of ``like``, or float64 and complex128.
    trials : int
        Number of pairs of vectors for each of ``dtypes``, at least 1.
    like : Tensor, optional
        Any tensor of the shape, dtype and device of the input, instead of ``sizes``.
    rtol : float, optional
        As for :func:`is_adjoint`.

    Raises
    ------
    TypeError
        If A is not an operator, or ``trials`` or ``seed`` is not an integer.
    AdjointError
        If the products differ, or the output of the adjoint does not have the shape of the input.
    SplitError
        If two halves do not make up the whole, or the operator cannot be cut where it says so.
    ValueError
        If the size of a dimension is not known, or there are no trials or dtypes.

    References
    ----------
    J. F. Claerbout, "Earth Soundings Analysis: Processing versus Inversion" (1992), chapter 5.

    Examples
    --------
    >>> from linops_core import FFT
    >>> dottest(FFT(1, norm="backward"), {"Nx": 4})
    >>> class InverseInstead(FFT):
    ...     @staticmethod
    ...     def adj_fn(linop, y):
    ...         return torch.fft.ifft(y)
    >>> try:
    ...     dottest(InverseInstead(1, norm="backward"), {"Nx": 4})
    ... except AdjointError as error:
    ...     print(str(error).rpartition(", ")[2])
    got 0.25 times the adjoint
    """
    if not isinstance(A, NamedLinop):
        raise TypeError(f"dottest: A must be a NamedLinop, got {type(A)}; wrap it in a SimpleLinop")
    check_integer("dottest", "trials", trials, 1)
    of_input, of_output = _totals(A)
    generator = of_image = of_input.generator(check_integer("dottest", "seed", seed))
    if (of_input.add, of_output.add) != (None, None):
        of_image = of_output.generator(seed + 1)
    if isinstance(like, Tensor):
        check_vector("dottest", "like", like)
    lengths, input_dtype, device = input_space(A, sizes, like, device=device)
    if dtypes is None:
        dtypes = (torch.float64, torch.complex128) if like is None else (input_dtype,)
    if not dtypes or not all(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
        raise ValueError(
            f"dottest: dtypes must be one or more floating or complex dtypes, got {dtypes}"
        )
    factors: list[complex] = []
    wrong = False
    for dtype, _ in product(dtypes, range(trials)):
        x = torch.randn(lengths, dtype=dtype, generator=generator, device="cpu").to(device)
        with torch.no_grad():
            image = A(x)
            y = torch.randn(image.shape, dtype=image.dtype, generator=of_image, device="cpu")
            y = y.to(image.device)
            back = A.H(y)
        for shapes in _gathered(of_input, (tuple(x.shape), tuple(back.shape))):
            if shapes[0] != shapes[1]:
                raise AdjointError(
                    f"{A.signature}: the adjoint must return the shape of the input {shapes[0]}, "
                    f"got {shapes[1]}"
                )
        wrong |= not is_adjoint(A, x, y, rtol)
        left, right = map(complex, _both(A, image, y, x, back))
        factors += _gathered(of_input, right / left if left else complex("nan"))
    if wrong:
        raise AdjointError(
            f"{A.signature}: the adjoint must satisfy {_equation(A)}, got {_described(factors)}"
        )
    if (of_input.add, of_output.add) == (None, None):
        _check_halves(A, x, image, rtol)
        _check_halves(A.H, y, back, rtol)


@torch.no_grad()
def _check_halves(A: NamedLinop, x: Tensor, image: Tensor, rtol: float | None) -> None:
    """Raise a SplitError unless two halves along each dimension make up ``image``, which is A x."""
    lengths = {dim: x.shape[axis] for axis, dim in named_axes(A.ishape)}
    lengths |= {dim: image.shape[axis] for axis, dim in named_axes(A.oshape)}
    for dim in sorted(A.dims):
        size = lengths.get(dim, A.size(dim))
        if size is None or size < 2 or not may_be_cut(A, dim):
            continue
        pieces = slice(0, size // 2), slice(size // 2, size)
        total, scale = torch.zeros_like(image), _norm(WHOLE, image)
        for piece, tile in zip(pieces, A.tiles_along(dim, pieces), strict=True):
            part = tile(x[_index(A.ishape, dim, piece)])
            total[_index(A.oshape, dim, piece)] += part
            scale = max(scale, _norm(WHOLE, part))
        bound = torch.finfo(image.dtype).eps ** 0.5 if rtol is None else rtol
        if not _norm(WHOLE, total - image) <= bound * scale:
            raise SplitError(
                f"{A.signature}: {dim} must be the same in two tiles as in the whole, got another "
                "result; override why_opaque(dim) to return why it cannot be cut, or split"
            )


def _index(
    names: Sequence[NamedDimension], dim: NamedDimension, piece: slice
) -> tuple[EllipsisType | slice, ...]:
    """Return the index of a slice of ``dim`` in a tensor with these dimensions."""
    return tuple(
        ... if name == ELLIPSES else piece if name == dim else slice(None) for name in names
    )


def _both(
    A: NamedLinop, image: Tensor, y: Tensor, x: Tensor, back: Tensor
) -> tuple[Tensor, Tensor]:
    """Return <A x, y> and <x, A^H y>."""

    def product(totals: Totals, x: Tensor, y: Tensor) -> Tensor:
        return totals.total(inner(x, y, is_complex_linear=A.is_complex_linear))

    of_input, of_output = _totals(A)
    return product(of_output, image, y), product(of_input, x, back)


def _totals(A: NamedLinop) -> tuple[Totals, Totals]:
    """Return how numbers of parts of inputs, and of outputs, are added up."""
    return totals_of(A, "input") or WHOLE, totals_of(A, "output") or WHOLE


def _norm(totals: Totals, x: Tensor) -> float:
    length = norm(x)
    return float(length if totals.add is None else totals.total(length.square()).sqrt())


def _gathered(totals: Totals, outcome: Item) -> list[Item]:
    """Return the outcomes of all processes, if there are several."""
    processes = totals.processes
    if processes is None:
        return [outcome]
    return cast(list[Item], processes.all_gather(outcome, "the dot test"))


def _equation(A: NamedLinop) -> str:
    if A.is_complex_linear:
        return "<A x, y> = <x, A^H y>"
    return "Re<A x, y> = Re<x, A^H y>, as it is linear over the reals only"


def _described(factors: Sequence[complex]) -> str:
    """Return the ratios of the two products in words."""
    mean = sum(factors) / len(factors)
    if not max(abs(factor - mean) for factor in factors) <= 1e-4 * abs(mean):
        return "something that is not a multiple of the adjoint"
    if abs(mean - 1) <= 1e-6:
        difference = max(abs(factor - 1) for factor in factors)
        return (
            f"the adjoint up to a relative difference of {difference:.1g}, as in a lower "
            "precision; give dtypes=[torch.float32], or rtol="
        )
    number = f"{mean.real:.6g}" if abs(mean.imag) <= 1e-6 * abs(mean) else f"({mean:.6g})"
    return f"{number} times the adjoint"
