"""The imaginary part."""

from __future__ import annotations

from torch import Tensor

from nameddim import NamedShape

from .._base._sliceable import SliceableLinop
from .._kernels._complex import as_complex, imag_part, real_part
from ._grid_names import Dims


class ImagPart(SliceableLinop):
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

    is_complex_linear = False

    def __init__(self, ioshape: Dims = ("...",)) -> None:
        super().__init__(NamedShape(ioshape))

    @staticmethod
    def fn(linop: ImagPart, x: Tensor, /) -> Tensor:
        """Return Im x, real."""
        return imag_part(x)

    @staticmethod
    def adj_fn(linop: ImagPart, x: Tensor, /) -> Tensor:
        """Return i Re x."""
        return 1j * as_complex(real_part(x))
