"""Operators made of plain functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nameddim import AnyDim, NamedShape

from .._algebra._normal import Normal
from .._algebra._normal_of import normal_of
from .._algebra._threads import is_portable
from .._base._copying import linked
from .._base._linop import NamedLinop
from ._grid_names import Dims

Function = Callable[[Tensor], Tensor]


class SimpleLinop(NamedLinop):
    r"""An operator of plain functions: one for :math:`Ax`, one for :math:`A^H y`.

    None of its dimensions can be sliced; an operator that is to be cut is a class of its own, see
    :class:`NamedLinop`. Functions that are modules are parts of the operator: their weights move,
    are saved and are copied with it. To be pickled it needs functions that can be.

    Parameters
    ----------
    forward : callable
        Returns A x; linear over complex numbers too where there are any.
    adjoint : callable or None
        Returns A^H y. Without it there is no adjoint, and a normal only with ``normal``.
    normal : callable, optional
        Returns A^H A x, where there is a faster way than the adjoint of the forward.
    ishape, oshape : sequence of dimensions
        Any by default, the output's as the input's.
    name : str, optional
    check : bool
        Whether the functions have to pass the dot test, :math:`\langle A x, y \rangle = \langle x,
        A^H y \rangle`, on random vectors like the first input, and ``normal`` has to be the adjoint
        after the forward. It costs some calls, once, at the first use of the operator, its adjoint
        or its normal, and is put off while torch compiles or transforms.

    Raises
    ------
    TypeError
        If what is given is not callable.
    ValueError
        If there is to be a check and there is no adjoint; at each use, if ``normal`` is wrong.
    AdjointError
        At each use, if the adjoint is wrong; the message says by which factor.
    NotImplementedError
        If the adjoint is asked for and was not given.

    Examples
    --------
    >>> A = SimpleLinop(lambda x: x.cumsum(-1), lambda y: y.flip(-1).cumsum(-1).flip(-1))
    >>> A.H(torch.ones(3))
    tensor([3., 2., 1.])
    >>> wrong = SimpleLinop(lambda x: 2 * x, lambda y: y / 2, name="Twice", check=True)
    >>> try:
    ...     wrong(torch.ones(3))
    ... except ValueError as error:
    ...     print(str(error).rpartition(", ")[2])
    got 0.25 times the adjoint
    """

    def __init__(
        self,
        forward: Function,
        adjoint: Function | None,
        normal: Function | None = None,
        ishape: Dims = ("...",),
        oshape: Dims | None = None,
        name: str | None = None,
        *,
        check: bool = False,
    ) -> None:
        super().__init__(NamedShape(ishape, oshape), name)
        for which, function in (("forward", forward), ("adjoint", adjoint), ("normal", normal)):
            if not callable(function) and (which == "forward" or function is not None):
                raise TypeError(f"{self.name}: {which} must be callable, got {function!r}")
        if check and adjoint is None:
            raise ValueError(f"{self.name}: there must be an adjoint to be checked, got None")
        self.forward_function, self.adjoint_function = forward, adjoint
        self.normal_function = normal
        # Shared with all that is made of this operator: checked once is checked.
        self._to_check = {"functions": check}

    @staticmethod
    def fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        linop.check_once(x)
        return linop.forward_function(x)

    @staticmethod
    def adj_fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        assert linop.adjoint_function is not None
        result = linop.adjoint_function(x)
        linop.check_once(result)
        return result

    @staticmethod
    def normal_fn(linop: SimpleLinop, x: Tensor, /) -> Tensor:
        """Return A^H A x, through the function that was given for it."""
        linop.check_once(x)
        assert linop.normal_function is not None
        return linop.normal_function(x)

    def check_once(self, x: Tensor) -> None:
        """Check the functions on vectors like the input ``x``, if that is still to be done."""
        if not self._to_check["functions"] or torch.compiler.is_compiling():
            return
        if x.is_meta or type(x) not in (Tensor, nn.Parameter) or not is_portable():
            return  # there may be no values to look at
        self._check(x)
        self._to_check["functions"] = False

    def _check(self, x: Tensor) -> None:
        from ..testing import dottest

        dims = tuple(AnyDim(axis + 1) for axis in range(x.ndim))
        functions = self.forward_function, self.adjoint_function
        plain = SimpleLinop(*functions, None, dims, ("...",), self.name)
        is_number = x.is_floating_point() or x.is_complex()
        dtype = x.dtype if is_number else torch.get_default_dtype()
        sizes = {str(dim): length for dim, length in zip(dims, x.shape, strict=True)}
        with torch.no_grad():
            dottest(plain, sizes, dtypes=[dtype], trials=2, device=x.device)
            if self.normal_function is None:
                return
            z = torch.randn(x.shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
            z = z.to(x.device)
            found, expected = self.normal_function(z), plain.H(plain(z))
            bound = torch.finfo(expected.dtype).eps ** 0.5 * max(found.norm(), expected.norm())
            if found.shape != x.shape or not (found - expected).norm() <= bound:
                raise ValueError(
                    f"{self.signature}: normal must be the adjoint after the forward, got another "
                    f"result for a random vector of shape {tuple(x.shape)}"
                )

    def adjoint(self) -> NamedLinop:
        """Return the adjoint; a NotImplementedError says that there is no function for it."""
        if self.adjoint_function is None:
            raise NotImplementedError(
                f"{self.signature}: there is no adjoint; give a function for it"
            )
        return super().adjoint()

    def own_normal(self) -> NamedLinop:
        """Return A^H A: through the function that was given for it, if one was."""
        if self.normal_function is None or self.normal_fn is NamedLinop.normal_fn:
            return normal_of(self)
        return Normal(linked(self))
