"""Finite differences along named dimensions: gradients, symmetrised gradients, Laplacians."""

from __future__ import annotations

import math
from collections.abc import Sequence

from linops_core.siblings import check_integer
from nameddim import as_dims

from ._stencil import Stencil, Term
from ._stencil_sums import Dim, StencilSums

_SCHEMES: dict[str, Stencil] = {
    "forward": {1: 1, 0: -1},
    "backward": {0: 1, -1: -1},
    "central": {1: 0.5, -1: -0.5},
}
_SECOND: Stencil = {1: 1, 0: -2, -1: 1}


def _first_differences(owner: str, scheme: str) -> Stencil:
    if scheme not in [*_SCHEMES]:
        raise ValueError(f"{owner}: scheme must be one of {[*_SCHEMES]}, got {scheme!r}")
    return _SCHEMES[scheme]


class FiniteDifference(StencilSums):
    r"""The differences of neighbours along one dimension of N points.

    ==========  =======================================
    scheme      :math:`y_i`, i = 0, ..., N - 1
    ==========  =======================================
    "forward"   :math:`x_{i + 1} - x_i`
    "backward"  :math:`x_i - x_{i - 1}`
    "central"   :math:`(x_{i + 1} - x_{i - 1}) / 2`
    ==========  =======================================

    ===========  ==================  ==================  ==========================================
    boundary     :math:`x_{-1}`      :math:`x_N`         the difference at the end
    ===========  ==================  ==================  ==========================================
    "zeros"      0                   0                   forward: :math:`y_{N - 1} = -x_{N - 1}`;
                                                         backward: :math:`y_0 = x_0`
    "circular"   :math:`x_{N - 1}`   :math:`x_0`         neighbours on a ring
    "replicate"  :math:`x_0`         :math:`x_{N - 1}`   forward: :math:`y_{N - 1} = 0`;
                                                         backward: :math:`y_0 = 0`
    ===========  ==================  ==================  ==========================================

    The adjoint is the transpose of the same matrix. With "circular", the adjoint of forward
    differences is the negative backward differences. With "replicate", the differences of a
    constant are zero (Neumann's boundary condition).

    Parameters
    ----------
    dim : dimension
        Differences are taken along it.
    size : int
        Length N of ``dim``.
    scheme : {"forward", "backward", "central"}
    boundary : {"zeros", "circular", "replicate"}
    shape : sequence of dimensions, optional
        All dimensions of the input, with ``dim`` in any place; ``("...", dim)`` by default. The
        other dimensions can be sliced.
    to : dimension, optional
        The name of ``dim`` in the output. By default the name stays, and the operator can be added
        to others. With another name, both dimensions can be sliced: a slice of the output reads the
        same slice of the input and its neighbours, see :meth:`NamedLinop.support`.

    Raises
    ------
    TypeError
        If the size is not an integer.
    ValueError
        If an argument is not one of the values above.

    Notes
    -----
    Real and complex input of any floating dtype keeps its dtype. Differences of integers are int64;
    for the central scheme they have the default dtype. Only the result is allocated.

    References
    ----------
    R. J. LeVeque, "Finite difference methods for ordinary and partial differential equations",
    SIAM (2007), section 1.1.

    Examples
    --------
    >>> import torch
    >>> D = FiniteDifference("N", 4, boundary="replicate")
    >>> D(torch.tensor([1.0, 4.0, 9.0, 16.0]))
    tensor([3., 5., 7., 0.])
    >>> D.H(torch.tensor([1.0, 1.0, 1.0, 1.0]))
    tensor([-1.,  0.,  0.,  1.])
    >>> D = FiniteDifference("N", 8, to="M")
    >>> D.split(D, {"M": slice(4, 6)}).support("N")
    slice(4, 7, None)
    """

    def __init__(
        self,
        dim: Dim,
        size: int,
        scheme: str = "forward",
        boundary: str = "zeros",
        *,
        shape: Sequence[Dim] | None = None,
        to: Dim | None = None,
    ) -> None:
        check_integer("FiniteDifference", "size", size, 1)
        stencil = _first_differences("FiniteDifference", scheme)
        result = None if to is None else (to,)
        super().__init__((dim,), (size,), stencil, boundary, shape, result, [Term(0, 0, 0, 1)])


class Gradient(StencilSums):
    r"""The differences along each dimension of a grid, one after the other: a vector field.

    .. math:: y_{d, n} = (\Delta_d x)_n

    with the differences :math:`\Delta_d` of :class:`FiniteDifference` along dimension d. The
    components are the first dimension of the output, (D, ..., Nx, Ny), as in mrpro and
    scikit-image. The negative adjoint is a divergence.

    Parameters
    ----------
    dims : sequence of dimensions
        Dimensions of the grid, for instance ("Nx", "Ny").
    sizes : sequence of int
        Sizes of the grid.
    out_dim : dimension
        Dimension of the components; it can be sliced.
    scheme, boundary
        As for :class:`FiniteDifference`. Total variation commonly uses "replicate", which does not
        penalise an object that touches the border.
    shape, to : sequences of dimensions, optional
        As for :class:`FiniteDifference`, for all dimensions of the grid.

    Raises
    ------
    ValueError
        If an argument is not one of the values above.

    Notes
    -----
    Dtypes are those of :class:`FiniteDifference`.

    References
    ----------
    A. Chambolle, "An algorithm for total variation minimization and applications", Journal of
    Mathematical Imaging and Vision 20 (2004), section 2: "forward" with "replicate".

    Examples
    --------
    >>> import torch
    >>> G = Gradient(("Nx", "Ny"), [2, 2], boundary="replicate")
    >>> G
    Gradient (..., Nx, Ny) -> (D, ..., Nx, Ny)
    >>> G(torch.tensor([[1.0, 2.0], [4.0, 8.0]]))
    tensor([[[3., 6.],
             [0., 0.]],
    <BLANKLINE>
            [[1., 0.],
             [4., 0.]]])
    """

    def __init__(
        self,
        dims: Sequence[Dim],
        sizes: Sequence[int],
        out_dim: Dim = "D",
        scheme: str = "forward",
        boundary: str = "zeros",
        *,
        shape: Sequence[Dim] | None = None,
        to: Sequence[Dim] | None = None,
    ) -> None:
        stencil = _first_differences("Gradient", scheme)
        terms = [Term(axis, 0, axis, 1) for axis in range(len(as_dims(dims)))]
        super().__init__(dims, sizes, stencil, boundary, shape, to, terms, into=out_dim)


class SymmetrizedGradient(StencilSums):
    r"""The symmetric part of the Jacobian of a vector field v on a grid,

    .. math:: E_{ab} = \frac12 (\Delta_a v_b + \Delta_b v_a),

    with the differences of :class:`FiniteDifference`. Each entry of the upper triangle is stored
    once, row by row: xx, xy, yy in 2-D; xx, xy, xz, yy, yz, zz in 3-D. Off-diagonal entries are
    stored as :math:`\sqrt2 E_{ab}`, so the sum of squares of the output is the squared Frobenius
    norm of the matrices.

    Parameters
    ----------
    dims : sequence of dimensions
        The n dimensions of the grid.
    sizes : sequence of int
        Sizes of the grid.
    in_dim : dimension
        First dimension of the input: the n components of the field. It can be sliced.
    out_dim : dimension
        First dimension of the output: the n (n + 1) / 2 entries. It can be sliced.
    scheme : {"backward", "forward", "central"}
        Backward differences of forward differences are central second differences.
    boundary, shape, to
        As for :class:`Gradient`; ``shape`` does not contain ``in_dim``.

    Raises
    ------
    ValueError
        If an argument is not one of the values above.

    Notes
    -----
    Dtypes are those of :class:`FiniteDifference`. Integers are computed in the default dtype,
    unless the grid has one dimension and the scheme is not central.

    References
    ----------
    K. Bredies, K. Kunisch and T. Pock, "Total generalized variation", SIAM Journal on Imaging
    Sciences 3 (2010), section 4.

    Examples
    --------
    >>> import torch
    >>> E = SymmetrizedGradient(("Nx", "Ny"), [2, 2], boundary="replicate")
    >>> E
    SymmetrizedGradient (D, ..., Nx, Ny) -> (S, ..., Nx, Ny)
    >>> turn = torch.tensor([[[0.0, -1.0], [0.0, -1.0]], [[0.0, 0.0], [1.0, 1.0]]])
    >>> E(turn)[:, 1, 1]
    tensor([0., 0., 0.])
    """

    def __init__(
        self,
        dims: Sequence[Dim],
        sizes: Sequence[int],
        in_dim: Dim = "D",
        out_dim: Dim = "S",
        scheme: str = "backward",
        boundary: str = "zeros",
        *,
        shape: Sequence[Dim] | None = None,
        to: Sequence[Dim] | None = None,
    ) -> None:
        stencil = _first_differences("SymmetrizedGradient", scheme)
        ndim = len(as_dims(dims))
        entries = [(a, b) for a in range(ndim) for b in range(a, ndim)]
        terms = []
        for entry, (a, b) in enumerate(entries):
            if a == b:
                terms.append(Term(entry, a, a, 1))
            else:
                terms += [Term(entry, b, a, math.sqrt(0.5)), Term(entry, a, b, math.sqrt(0.5))]
        super().__init__(dims, sizes, stencil, boundary, shape, to, terms, in_dim, out_dim)


class Laplacian(StencilSums):
    r"""The sum of second differences along the dimensions of a grid,

    .. math:: y_n = \sum_d (x_{n + e_d} - 2 x_n + x_{n - e_d}),

    where :math:`e_d` is one step along dimension d. Points outside of the grid have the values
    described in :class:`FiniteDifference`. It is its own adjoint with every boundary. With
    "circular" and "replicate" it is ``-G.N`` for a forward or backward :class:`Gradient` G with
    that boundary. This does not hold for "zeros", because forward differences have a zero on one
    side only.

    Parameters
    ----------
    dims : sequence of dimensions
        Dimensions of the grid.
    sizes : sequence of int
        Sizes of the grid.
    boundary : {"zeros", "circular", "replicate"}
        "zeros" is Dirichlet's boundary condition, "replicate" Neumann's.
    shape, to
        As for :class:`Gradient`.

    Raises
    ------
    ValueError
        If an argument is not one of the values above.

    Notes
    -----
    Floating dtypes are kept; results of integers are int64.

    References
    ----------
    R. J. LeVeque, as for :class:`FiniteDifference`, section 3.2.

    Examples
    --------
    >>> import torch
    >>> L = Laplacian(("N",), [4])
    >>> L(torch.tensor([0.0, 1.0, 4.0, 9.0]))
    tensor([  1.,   2.,   2., -14.])
    """

    def __init__(
        self,
        dims: Sequence[Dim],
        sizes: Sequence[int],
        boundary: str = "zeros",
        *,
        shape: Sequence[Dim] | None = None,
        to: Sequence[Dim] | None = None,
    ) -> None:
        terms = [Term(0, 0, axis, 1) for axis in range(len(as_dims(dims)))]
        super().__init__(dims, sizes, _SECOND, boundary, shape, to, terms)
