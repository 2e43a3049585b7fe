"""Real tensors as complex tensors."""

from __future__ import annotations

from torch import Tensor

from nameddim import NamedShape

from .._base._sliceable import SliceableLinop
from .._kernels._complex import as_complex, real_part
from ._grid_names import Dims


class AsComplex(SliceableLinop):
    r"""A real tensor as a complex one, :math:`x \mapsto x + 0i`.

    The adjoint with respect to :math:`\mathrm{Re} \langle x, y \rangle` is the real part, as a real
    tensor. Compose with it to find a real solution: ``(F @ AsComplex()).H`` ends in a real part.
    The imaginary part of a complex input is ignored, so the operator is linear over the reals only
    (:attr:`NamedLinop.is_complex_linear`).

    Parameters
    ----------
    ioshape : sequence of dimensions, optional
        Any dimensions by default. All can be sliced.

    Examples
    --------
    >>> import torch
    >>> E = AsComplex()
    >>> E(torch.tensor([1.0, 5.0]))
    tensor([1.+0.j, 5.+0.j])
    >>> E.H(torch.tensor([1 + 2j, 3j]))
    tensor([1., 0.])
    """

    _is_real = True
    is_complex_linear = False

    def __init__(self, ioshape: Dims = ("...",)) -> None:
        super().__init__(NamedShape(ioshape))

    @staticmethod
    def fn(linop: AsComplex, x: Tensor, /) -> Tensor:
        """Return Re x, complex."""
        return as_complex(real_part(x))

    @staticmethod
    def adj_fn(linop: AsComplex, x: Tensor, /) -> Tensor:
        """Return Re x, real."""
        return real_part(x)
