"""The inner product, and the law that it makes of an adjoint."""

from __future__ import annotations

import torch
from torch import Tensor

from .._base._linop import NamedLinop


def inner(x: Tensor, y: Tensor) -> Tensor:
    r"""Return the inner product :math:`\langle x, y \rangle = \sum_n \bar x_n y_n`.

    Parameters
    ----------
    x, y : Tensor
        Of one shape; real, complex or one of each.

    Returns
    -------
    Tensor
        Without dimensions, of the dtype to which those of x and y promote.

    Raises
    ------
    ValueError
        If the shapes differ: nothing is broadcast.

    Examples
    --------
    >>> inner(torch.tensor([1j, 1.0]), torch.tensor([1j, 2.0]))
    tensor(3.+0.j)
    """
    if x.shape != y.shape:
        raise ValueError(
            f"inner: x and y must have one shape, got {tuple(x.shape)} and {tuple(y.shape)}"
        )
    dtype = torch.promote_types(x.dtype, y.dtype)
    return torch.vdot(x.flatten().to(dtype), y.flatten().to(dtype))


def is_adjoint(
    A: NamedLinop, x: Tensor, y: Tensor, rtol: float | None = None, atol: float = 0.0
) -> bool:
    r"""Whether :math:`\langle A x, y \rangle = \langle x, A^H y \rangle` for these two vectors.

    Parameters
    ----------
    A : NamedLinop
    x, y : Tensor
        Of the shapes of its input and of its output.
    rtol : float, optional
        Largest difference, relative to the product of the norms of the vectors; the square root
        of the precision by default.
    atol : float
        Largest difference, absolute; the larger of the two counts.

    Examples
    --------
    >>> from linops_core import Scalar
    >>> is_adjoint(Scalar(2j), torch.ones(3), torch.ones(3))
    True
    """
    with torch.no_grad():
        there, back = A(x), A.H(y)
        left, right = inner(there, y), inner(x, back)
        if rtol is None:
            rtol = torch.finfo(torch.promote_types(left.dtype, right.dtype)).eps ** 0.5
        scale = max(float(there.norm() * y.norm()), float(x.norm() * back.norm()))
        return abs(complex(left) - complex(right)) <= max(atol, rtol * scale)
