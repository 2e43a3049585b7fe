"""Operators as matrices and as operators of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ._dimensions import DimensionedModule
from ._sizes import input_space

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Conversions(DimensionedModule):
    """What operators are turned into, for :class:`NamedLinop` to inherit."""

    _as_scipy: ClassVar[Callable[..., LinearOperator]]
    """Which the adapters fill in."""

    def to_dense(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        *,
        like: Tensor | None = None,
    ) -> Tensor:
        """Return the matrix of the operator.

        Parameters
        ----------
        sizes : mapping of dimension to int, optional
            Sizes of the input's dimensions that the operator does not know. A ``...`` that is
            not given stands for no dimension.
        dtype : torch.dtype, optional
            Of the unit vectors that the operator is applied to: by default that of the weights,
            float64 if there are none. The matrix has the dtype of what the operator returns for
            them, which is complex for a Fourier transform.
        device : torch.device or str, optional
            Of the unit vectors; that of the operator's input by default.
        like : Tensor, optional
            Any tensor of the shape, dtype and device of the input, in the place of these three.

        Returns
        -------
        Tensor
            Shape (product of output sizes, product of input sizes).

        Raises
        ------
        TypeError
            If ``sizes`` is no mapping, or ``like`` no tensor.
        ValueError
            If the size of an input dimension is not known, or both are given.

        Examples
        --------
        >>> from linops_core import FFT, Diagonal
        >>> Diagonal(torch.tensor([2.0, 4.0]), ("N",)).to_dense()
        tensor([[2., 0.],
                [0., 4.]])
        >>> FFT(1).to_dense({"Nx": 2}).dtype
        torch.complex128
        """
        lengths, dtype, device = input_space(self, sizes, like, dtype, device)
        n_columns = torch.Size(lengths).numel()
        # Where there are no columns, one empty vector tells the number and the dtype of the rows.
        basis = torch.eye(max(n_columns, 1), n_columns, dtype=dtype, device=device)
        columns = [self(row.reshape(lengths)).flatten() for row in basis]
        return torch.stack(columns, dim=1)[:, :n_columns]

    def to_scipy(
        self,
        sizes: Mapping[str, int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        *,
        like: Tensor | None = None,
    ) -> LinearOperator:
        """Return the operator as a ``scipy.sparse.linalg.LinearOperator`` on flat NumPy vectors.

        SciPy's solvers run on it. The columns of a matrix go through the operator at once where
        its ``...`` is a batch dimension. Weights are read in every call.

        Parameters
        ----------
        sizes : mapping of dimension to int, optional
            As in :meth:`to_dense`.
        dtype : torch.dtype, optional
            What vectors are cast to, complex ones to the complex dtype of that precision; that
            of the weights by default, double if there are none.
        device : torch.device or str, optional
            Where the operator is applied: the device of the weights by default. Vectors stay on
            the CPU, and are copied there and back.
        like : Tensor, optional
            As in :meth:`to_dense`.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            Shape (product of output sizes, product of input sizes). Its dtype is what the
            operator makes of ``dtype``.

        Raises
        ------
        ImportError
            If SciPy is not installed (the extra ``scipy``).
        TypeError
            If dtype is not one of float32, float64, complex64 and complex128.
        ValueError
            If the size of a dimension is not known, or weights are on several devices.

        Examples
        --------
        >>> from linops_core import Diagonal
        >>> A = Diagonal(torch.tensor([2.0, 4.0]), ("N",)).to_scipy()
        >>> A.shape, A.dtype
        ((2, 2), dtype('float32'))
        """
        return self._as_scipy(self, sizes, dtype, device, like)
