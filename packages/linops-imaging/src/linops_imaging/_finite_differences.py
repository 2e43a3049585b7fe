"""Finite differences along named dimensions: gradients, symmetrised gradients, Laplacians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from linops_core import GridNames, GridOperator, NamedLinop, Role, linear_function
from nameddim import ND, NamedDimension, NamedShape, as_dims

from ._checks import counts, sizes_of_grid
from ._stencil import BOUNDARIES, Part, Plan, Run, Stencil, Term, applied, planned, runs_of

Dim: TypeAlias = NamedDimension | str

_SCHEMES: dict[str, Stencil] = {
    "forward": {1: 1, 0: -1},
    "backward": {0: 1, -1: -1},
    "central": {1: 0.5, -1: -0.5},
}
_SECOND: Stencil = {1: 1, 0: -2, -1: 1}


class _Differences(GridOperator[Part]):
    """The base: sums of stencils along the axes of a grid, of components and to components."""

    _is_real = True
    _grids = ("grid", "result")

    def __init__(
        self,
        dims: Sequence[Dim],
        sizes: Sequence[int],
        stencil: Stencil,
        boundary: str,
        shape: Sequence[Dim] | None,
        to: Sequence[Dim] | None,
        terms: Sequence[Term],
        of: Dim | None = None,
        into: Dim | None = None,
    ) -> None:
        owner = type(self).__name__
        if boundary not in BOUNDARIES:
            raise ValueError(f"{owner}: boundary must be one of {[*BOUNDARIES]}, got {boundary!r}")
        names = GridNames.along(owner, dims, shape, to)
        lengths = sizes_of_grid(owner, sizes, len(names.grid), name="sizes")
        sides = as_dims(() if of is None else (of,)), as_dims(() if into is None else (into,))
        if of is not None and sides[0] == sides[1]:
            raise ValueError(f"{owner}: in_dim and out_dim must differ, got {of!r} for both")
        whole = NamedShape(
            (*sides[0], *names.names),
            (*sides[1], *names.output),
            batch_shape=names.batch,
            grid=names.grid,
            result=names.result,
            in_component=sides[0],
            out_component=sides[1],
        )
        n_inputs = 1 + max(term.input for term in terms)
        n_outputs = 1 + max(term.output for term in terms)
        parts = [Part(range(n), range(n)) for n in lengths]
        axes = [*parts, Part(range(n_inputs), range(n_outputs))]
        super().__init__(whole, axes, names.is_free)
        self._runs: list[Sequence[Run]] = [runs_of(stencil, n, boundary) for n in lengths]
        self._terms = tuple(terms)
        factors = (*stencil.values(), *(term.factor for term in terms))
        self._keeps_integers = all(isinstance(factor, int) for factor in factors)

    @staticmethod
    def fn(linop: _Differences, x: Tensor, /) -> Tensor:
        """Return the differences."""
        return linear_function(linop._there, linop._back, linop._countable(x))

    @staticmethod
    def adj_fn(linop: _Differences, x: Tensor, /) -> Tensor:
        """Return the adjoint of the differences."""
        return linear_function(linop._back, linop._there, linop._countable(x))

    def _countable(self, x: Tensor) -> Tensor:
        """Return x in a dtype that can hold the result; what is lazy is done once, here."""
        if x.is_floating_point() or x.is_complex():
            return x.resolve_conj().resolve_neg()
        return x.long() if self._keeps_integers else x.to(torch.get_default_dtype())

    @property
    def _numbers(self) -> list[int]:
        """The axes of the grid, behind that of the components."""
        shift = not self.shape.other_shapes["in_component"]
        return [axis + shift if axis >= 0 else axis for axis in self._places[0]]

    def _there(self, x: Tensor) -> Tensor:
        of, into = self.axis_dims[-1]
        x = x if of else x.unsqueeze(0)
        y = applied(x, self._plan("there"), self._numbers)
        return y if into else y.squeeze(0)

    def _back(self, y: Tensor) -> Tensor:
        of, into = self.axis_dims[-1]
        y = y if into else y.unsqueeze(0)
        x = applied(y, self._plan("back"), self._numbers)
        return x if of else x.squeeze(0)

    def _plan(self, way: str) -> Plan:
        """Return what to do there or back, which is found out once."""
        plan = self._found.get(way)
        if not isinstance(plan, Plan):
            terms, parts, runs = self._terms, self._axes, self._runs
            if way == "back":
                terms = tuple([term.reverse for term in terms])
                parts = tuple([part.reverse for part in parts])
                runs = [[run.reverse for run in each] for each in runs]
            plan = planned(terms, parts, runs)
            if not is_dynamo_compiling():
                self._found[way] = plan
        return plan

    @property
    def axis_dims(self) -> Sequence[tuple[NamedDimension | None, ...]]:
        """The dimensions of each axis of the grid, and those of the components."""
        shapes = self.shape.other_shapes
        of, into = ((*shapes[name], None)[0] for name in ("in_component", "out_component"))
        return [*zip(shapes["grid"], shapes["result"], strict=True), (of, into)]

    def fitted_to(self, dims: tuple[NamedDimension, ...]) -> NamedLinop | None:
        """Return the same operator for an input with these dimensions; see :class:`NamedLinop`."""
        own = self.shape.other_shapes
        of, into = own["in_component"], own["out_component"]
        if self.is_adjoint:
            of, into = into, of
        if not self._is_free or dims[: len(of)] != of:
            return None
        return self._fitted_by_name(dims[len(of) :], (of, into))

    def support(self, dim: Dim) -> slice | None:
        """Return what a tile reads or writes along the grid; see :meth:`NamedLinop.support`."""
        dim = ND.infer(dim)
        places = [axis for axis, dims in enumerate(self.axis_dims) if dim in dims]
        if not places or self.role(dim) is Role.OPAQUE:
            return None
        (axis,) = places
        is_output = self.axis_dims[axis].index(dim) == 1
        pieces = []
        for step in self._plan("there").steps:
            if axis == len(self._runs):
                number = step.output if is_output else step.input
                pieces.append(slice(number, number + 1))
            else:
                pieces += [run.written if is_output else run.read for run in step.runs(axis)]
        starts, stops = [piece.start for piece in pieces], [piece.stop for piece in pieces]
        return slice(min(starts, default=0), max(stops, default=0))


def _first_differences(owner: str, scheme: str) -> Stencil:
    if scheme not in _SCHEMES:
        raise ValueError(f"{owner}: scheme must be one of {[*_SCHEMES]}, got {scheme!r}")
    return _SCHEMES[scheme]


class FiniteDifference(_Differences):
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
    "circular"   :math:`x_{N - 1}`   :math:`x_0`         that of neighbours on a ring
    "replicate"  :math:`x_0`         :math:`x_{N - 1}`   forward: :math:`y_{N - 1} = 0`;
                                                         backward: :math:`y_0 = 0`
    ===========  ==================  ==================  ==========================================

    The adjoint is the transpose of the same matrix. With "circular", that of the forward
    differences are the negative backward differences. With "replicate" constants have no
    differences (Neumann's boundary condition).

    Parameters
    ----------
    dim : dimension
        Along which differences are taken.
    size : int
        Its length N.
    scheme : {"forward", "backward", "central"}
    boundary : {"zeros", "circular", "replicate"}
    shape : sequence of dimensions, optional
        All dimensions of the input, ``dim`` among them, in any place; ``("...", dim)`` by default.
        The others can be sliced.
    to : dimension, optional
        The name of ``dim`` in the output; by default it stays, so that the operator can be added
        to others. Where it is another one, both can be sliced: a slice of the differences reads
        its slice of the input and the neighbours of that, see :meth:`NamedLinop.support`.

    Raises
    ------
    TypeError
        If the size is no integer.
    ValueError
        If an argument is not as said.

    Notes
    -----
    Real and complex input of any floating dtype keeps its dtype. Differences of integers are int64,
    but those of the central scheme, which are of the default dtype. Nothing is allocated but the
    result.

    References
    ----------
    R. J. LeVeque, "Finite difference methods for ordinary and partial differential equations",
    SIAM (2007), section 1.1.

    Examples
    --------
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
        counts("FiniteDifference", size=size)
        stencil = _first_differences("FiniteDifference", scheme)
        result = None if to is None else (to,)
        super().__init__((dim,), (size,), stencil, boundary, shape, result, [Term(0, 0, 0, 1)])


class Gradient(_Differences):
    r"""The differences along each dimension of a grid, one after the other: a vector field.

    .. math:: y_{d, n} = (\Delta_d x)_n

    with the differences :math:`\Delta_d` of :class:`FiniteDifference` along dimension d. The
    components are the first dimension of the output, (D, ..., Nx, Ny), as in mrpro and
    scikit-image. Minus its adjoint is a divergence.

    Parameters
    ----------
    dims : sequence of dimensions
        Of the grid, for instance ("Nx", "Ny").
    sizes : sequence of int
        Of the grid.
    out_dim : dimension
        Of the components; it can be sliced.
    scheme : {"forward", "backward", "central"}
    boundary : {"zeros", "circular", "replicate"}
        What is outside of the grid, see :class:`FiniteDifference`. Total variation is commonly
        that of "replicate", which does not punish what touches the border.
    shape : sequence of dimensions, optional
        All dimensions of the input, the grid among them, in any places; ``("...", *dims)`` by
        default. The others can be sliced.
    to : sequence of dimensions, optional
        The names of the grid in the output; by default they stay, so that ``G.N`` can be added to
        other operators of the image. Where they are others, the grid can be sliced on both sides.

    Raises
    ------
    ValueError
        If an argument is not as said.

    Notes
    -----
    Dtypes are those of :class:`FiniteDifference`.

    References
    ----------
    A. Chambolle, "An algorithm for total variation minimization and applications", Journal of
    Mathematical Imaging and Vision 20 (2004), section 2: "forward" with "replicate".

    Examples
    --------
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


class SymmetrizedGradient(_Differences):
    r"""The symmetric part of the Jacobian of a vector field v on a grid,

    .. math:: E_{ab} = \frac12 (\Delta_a v_b + \Delta_b v_a),

    with the differences of :class:`FiniteDifference`. Each entry is stored once, row by row of the
    upper triangle (xx, xy, yy; xx, xy, xz, yy, yz, zz), and those off the diagonal as
    :math:`\sqrt2 E_{ab}`. So the sum of squares over the output is the squared Frobenius norm of
    the matrices, and the adjoint is that of the plain inner product.

    Parameters
    ----------
    dims : sequence of dimensions
        Of the grid, n of them.
    sizes : sequence of int
        Of the grid.
    in_dim : dimension
        Of the n components of the field, the first of the input; it can be sliced.
    out_dim : dimension
        Of the n (n + 1) / 2 entries, the first of the output; it can be sliced.
    scheme : {"backward", "forward", "central"}
        Backward differences of the forward differences of an image are its central second ones.
    boundary : {"zeros", "circular", "replicate"}
        What is outside of the grid.
    shape, to : sequences of dimensions, optional
        As for :class:`Gradient`; ``shape`` is without ``in_dim``.

    Raises
    ------
    ValueError
        If an argument is not as said.

    Notes
    -----
    Dtypes are those of :class:`FiniteDifference`; integers go to the default dtype, but where the
    grid has one dimension and the scheme is not central.

    References
    ----------
    K. Bredies, K. Kunisch and T. Pock, "Total generalized variation", SIAM Journal on Imaging
    Sciences 3 (2010), section 4.

    Examples
    --------
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


class Laplacian(_Differences):
    r"""The sum of second differences along the dimensions of a grid,

    .. math:: y_n = \sum_d (x_{n + e_d} - 2 x_n + x_{n - e_d}),

    the classical stencil, with :math:`e_d` one step along dimension d and what is outside as for
    :class:`FiniteDifference`. It is its own adjoint with every boundary. With "circular" and
    "replicate" it is ``-G.N`` of the forward and of the backward :class:`Gradient` G with that
    boundary. With "zeros" it is not: it has zeros on both sides, forward differences on one.

    Parameters
    ----------
    dims : sequence of dimensions
        Of the grid.
    sizes : sequence of int
        Of the grid.
    boundary : {"zeros", "circular", "replicate"}
        "zeros" is Dirichlet's boundary condition, "replicate" Neumann's.
    shape, to : sequences of dimensions, optional
        As for :class:`Gradient`.

    Raises
    ------
    ValueError
        If an argument is not as said.

    Notes
    -----
    Floating dtypes stay; results of integers are int64.

    References
    ----------
    R. J. LeVeque, as for :class:`FiniteDifference`, section 3.2.

    Examples
    --------
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
