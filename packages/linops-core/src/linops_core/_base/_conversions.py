"""Operators as matrices and as operators of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ._dimensions import SIDES, DimensionedModule
from ._sizes import input_space
from ._totals import totals_of

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Conversions(DimensionedModule):
    """Conversions, for :class:`NamedLinop` to inherit."""

    is_real: ClassVar[bool] = False
    """Whether the operator is its own complex conjugate. A class sets it; False if not known."""

    @property
    def is_complex_linear(self) -> bool:
        """Whether A(c x) = c A(x) for complex c, or only for real c.

        A real part, for instance, is linear over the reals only. Its spaces are real spaces of
        twice the dimension, with the inner product Re<x, y>. The adjoint, ``dottest`` and solvers
        use it, and :class:`RealForm` has the matrix. Complex numbers do not commute with such an
        operator: ``c * A`` and ``A * c`` both are x -> c A(x). Set ``is_complex_linear = False`` in
        a class that is not complex linear; compositions derive it from their parts.
        """
        return True

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
            Sizes of the input dimensions that the operator does not know. A ``...`` that is not
            given stands for no dimensions.
        dtype : torch.dtype, optional
            Dtype of the unit vectors to which the operator is applied; by default that of the
            weights, or float64 without weights (locations, angles and shifts are not counted). The
            dtype of the matrix is that of the outputs,
            which are complex for a Fourier transform.
        device : torch.device or str, optional
            Device of the unit vectors; by default that of the operator's input.
        like : Tensor, optional
            Any tensor of the shape, dtype and device of the input, instead of these three.

        Returns
        -------
        Tensor
            Shape (product of output sizes, product of input sizes).

        Raises
        ------
        TypeError
            If ``sizes`` is not a mapping, or ``like`` is not a tensor.
        ValueError
            If the size of an input dimension is not known, if both ``sizes`` and ``like`` are
            given, or if the operator is linear over the reals only: use its :class:`RealForm`.
        NotImplementedError
            If the operator works on parts of vectors, over several processes.

        Examples
        --------
        >>> from linops_core import FFT, Diagonal
        >>> Diagonal(torch.tensor([2.0, 4.0]), ("N",)).to_dense()
        tensor([[2., 0.],
                [0., 4.]])
        >>> FFT(1).to_dense({"Nx": 2}).dtype
        torch.complex128
        """
        check_has_matrix(self, "to_dense")
        lengths, own_dtype, device = input_space(self, sizes, like, dtype, device)
        # By default that of the weights; only the real form then returns real matrices.
        is_given = dtype is not None or like is not None or not self.is_real
        dtype = own_dtype if is_given else own_dtype.to_real()
        n_columns = torch.Size(lengths).numel()
        # Without columns, one empty vector shows the number and the dtype of the rows.
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

        SciPy's solvers can use it. If its ``...`` is a batch dimension, the operator is applied to
        all columns of a matrix at once. Weights are read in every call.

        Parameters
        ----------
        sizes : mapping of dimension to int, optional
            As in :meth:`to_dense`.
        dtype : torch.dtype, optional
            Dtype to which vectors are cast; complex vectors are cast to the complex dtype of that
            precision. By default that of the weights, or double precision without weights.
        device : torch.device or str, optional
            Device on which the operator is applied, by default that of the weights. Vectors are on
            the CPU and are copied to the device and back.
        like : Tensor, optional
            As in :meth:`to_dense`.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            Shape (product of output sizes, product of input sizes). Its dtype is that of the
            outputs for inputs of ``dtype``.

        Raises
        ------
        ImportError
            If SciPy is not installed (the extra ``scipy``).
        TypeError
            If dtype is not one of float32, float64, complex64 and complex128.
        ValueError
            If the size of a dimension is not known, weights are on several devices, or the operator
            is linear over the reals only; take its :class:`RealForm`.
        NotImplementedError
            If the operator works on parts of vectors, over several processes.

        Examples
        --------
        >>> from linops_core import Diagonal
        >>> A = Diagonal(torch.tensor([2.0, 4.0]), ("N",)).to_scipy()
        >>> A.shape, A.dtype
        ((2, 2), dtype('float32'))
        """
        check_has_matrix(self, "to_scipy")
        adapter = import_module(".._adapters._scipy", __package__)  # few programs need it
        made: LinearOperator = adapter.to_scipy(self, sizes, dtype, device, like)
        return made


def check_has_matrix(linop: DimensionedModule, what: str) -> None:
    """Raise an error if the operator has no complex matrix."""
    if not linop.is_complex_linear:
        raise ValueError(
            f"{linop.signature}: the operator must be linear over complex numbers for {what}, "
            "got one that is linear over the reals only; take its RealForm, which acts on "
            "real and imaginary parts"
        )
    of_sides = [totals_of(linop, side) for side in SIDES]
    if any(totals is not None and totals.cut for totals in of_sides):
        raise NotImplementedError(
            f"{linop.signature}: vectors must be whole for {what}, got an operator over several "
            "processes that have parts of them; take the operator that was distributed"
        )
