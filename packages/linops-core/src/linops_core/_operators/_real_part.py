"""The real part."""

from __future__ import annotations

from torch import Tensor

from nameddim import NamedShape

from .._base._sliceable import SliceableLinop
from .._kernels._complex import as_complex, real_part
from ._grid_names import Dims


class RealPart(SliceableLinop):
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

    _is_real = True
    is_complex_linear = False

    def __init__(self, ioshape: Dims = ("...",)) -> None:
        super().__init__(NamedShape(ioshape))

    @staticmethod
    def fn(linop: RealPart, x: Tensor, /) -> Tensor:
        """Return Re x, real."""
        return real_part(x)

    @staticmethod
    def adj_fn(linop: RealPart, x: Tensor, /) -> Tensor:
        """Return Re x, complex."""
        return as_complex(real_part(x))
