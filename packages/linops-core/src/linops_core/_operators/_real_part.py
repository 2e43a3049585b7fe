"""Real and imaginary parts, and real tensors as complex ones."""

from __future__ import annotations

from torch import Tensor

from nameddim import NamedShape

from .._base._linop import NamedLinop
from .._base._sliceable import SliceableLinop
from .._kernels._dtype import as_complex, imag_part, real_part
from ._grid_names import Dims


class _ByEntry(SliceableLinop):
    """An operator on each entry that is linear over the reals only."""

    is_complex_linear = False

    def __init__(self, ioshape: Dims = ("...",)) -> None:
        super().__init__(NamedShape(ioshape))


class RealPart(_ByEntry):
    r"""The real part :math:`x \mapsto \mathrm{Re}\, x`, as a real tensor.

    It is linear over the reals only (:attr:`NamedLinop.is_complex_linear`). The adjoint with
    respect to :math:`\mathrm{Re} \langle x, y \rangle` is the real part as a complex tensor. A real
    input is returned unchanged.

    Parameters
    ----------
    ioshape : sequence of dimensions, optional
        Any dimensions by default. All can be sliced.

    Examples
    --------
    >>> import torch
    >>> R = RealPart()
    >>> R(torch.tensor([1 + 2j, 3j]))
    tensor([1., 0.])
    >>> R.H(torch.tensor([1.0, 5.0]))
    tensor([1.+0.j, 5.+0.j])
    """

    is_real = True

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return Re x, real."""
        return real_part(x)

    @staticmethod
    def adj_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return Re x, complex."""
        return as_complex(real_part(x))


class ImagPart(_ByEntry):
    r"""The imaginary part :math:`x \mapsto \mathrm{Im}\, x`, as a real tensor.

    It is linear over the reals only (:attr:`NamedLinop.is_complex_linear`). The adjoint with
    respect to :math:`\mathrm{Re} \langle x, y \rangle` is :math:`y \mapsto i \, \mathrm{Re}\, y`.
    For a real input the result is zero.

    Parameters
    ----------
    ioshape : sequence of dimensions, optional
        Any dimensions by default. All can be sliced.

    Examples
    --------
    >>> import torch
    >>> A = ImagPart()
    >>> A(torch.tensor([1 + 2j, 3j]))
    tensor([2., 3.])
    >>> A.H(torch.tensor([1.0, 5.0]))
    tensor([0.+1.j, 0.+5.j])
    """

    @staticmethod
    def fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return Im x, real."""
        return imag_part(x)

    @staticmethod
    def adj_fn(linop: NamedLinop, x: Tensor, /) -> Tensor:
        """Return i Re x."""
        return 1j * as_complex(real_part(x))


class AsComplex(_ByEntry):
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

    is_real = True
    fn = staticmethod(RealPart.adj_fn)
    adj_fn = staticmethod(RealPart.fn)
