"""Operators of DeepInverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from linops_core import NamedLinop
from linops_core.siblings import check_flags
from nameddim import ELLIPSES, NamedDimension, NamedShape

from .._extras import optional_module

if TYPE_CHECKING:
    from deepinv.physics import LinearPhysics


def to_deepinv(
    A: NamedLinop, *, complex_channels: bool = False, **options: object
) -> LinearPhysics:
    """Return the operator as a ``LinearPhysics`` of DeepInverse.

    Its solvers, ``A_dagger`` and ``prox_l2`` use ``A.N``, in closed form if there is one.

    Parameters
    ----------
    A : NamedLinop
        If its input has a ``...``, A gets the whole batch, and ``...`` stands for B, or for B and
        C. Otherwise A gets the elements of the batch one by one.
    complex_channels : bool
        If True, images and measurements are real, (B, 2, ...), and A gets and returns complex
        tensors without that axis. If False, they have the dtypes that A takes and returns: a
        complex A has complex images. For real images, compose A with an operator whose adjoint
        takes the real part.
    **options
        For ``LinearPhysics``: ``noise_model``, ``max_iter``, ``tol``, ``solver``, ...

    Returns
    -------
    deepinv.physics.LinearPhysics
        A is a submodule: ``physics.to(device)`` moves A itself, and ``physics.parameters()``
        contains the weights of A. Keywords of calls go to the noise model and do not change A.

    Raises
    ------
    ImportError
        If DeepInverse is not installed (the extra ``deepinv``).
    TypeError
        If A is not a NamedLinop.
    ValueError
        When called: with ``complex_channels``, if a tensor is not real with two channels; without
        it, if a normal operator gets complex tensors and A is linear over the reals only, because
        the solvers of DeepInverse use complex inner products.
    """
    check_flags("to_deepinv", complex_channels=complex_channels)
    if not isinstance(A, NamedLinop):
        raise TypeError(f"to_deepinv: the operator must be a NamedLinop, got {type(A)}")
    base = optional_module("deepinv.physics", "to_deepinv", "deepinv").LinearPhysics
    return _physics_class(base)(A, complex_channels, options)


@cache
def _physics_class(base: Any) -> Any:
    """Return the class of physics that hold one of our operators."""

    class LinopPhysics(base):  # type: ignore[misc]  # which is known once DeepInverse is imported
        def __init__(self, linop: NamedLinop, channels: bool, options: dict[str, object]) -> None:
            super().__init__(**options)
            self.linop, self.complex_channels = linop, channels

        def A(self, x: Tensor, **_: object) -> Tensor:
            return self._call(self.linop, x)

        def A_adjoint(self, y: Tensor, **_: object) -> Tensor:
            return self._call(self.linop.H, y)

        def A_adjoint_A(self, x: Tensor, **_: object) -> Tensor:
            return self._normal(self.linop, x)

        def A_A_adjoint(self, y: Tensor, **_: object) -> Tensor:
            return self._normal(self.linop.H, y)

        def _normal(self, linop: NamedLinop, x: Tensor) -> Tensor:
            if x.is_complex() and not linop.is_complex_linear:
                raise ValueError(
                    f"to_deepinv: {linop.signature} must be linear over complex numbers if "
                    f"solvers of DeepInverse get {x.dtype}, got one that is linear over the reals "
                    "only; use complex_channels=True"
                )
            return self._call(linop.N, x)

        def _call(self, linop: NamedLinop, x: Tensor) -> Tensor:
            x = _as_complex(x, "to_deepinv") if self.complex_channels else x
            if ELLIPSES in linop.ishape:
                y = linop(x)
            else:  # zeros show the shape of what is returned for a batch of 0
                batch = x if len(x) else x.new_zeros(1, *x.shape[1:])
                y = torch.stack([linop(each) for each in batch])[: len(x)]
            return _as_channels(y) if self.complex_channels else y

    return LinopPhysics


def from_deepinv(
    physics: LinearPhysics,
    ishape: Sequence[NamedDimension | str],
    oshape: Sequence[NamedDimension | str],
    *,
    complex_channels: bool = False,
    name: str | None = None,
) -> NamedLinop:
    """Return an operator that calls a ``LinearPhysics`` of DeepInverse, without noise.

    Parameters
    ----------
    physics : deepinv.physics.LinearPhysics
        Must be linear over the complex numbers if it is applied to complex tensors. It becomes a
        submodule of the operator.
    ishape, oshape : sequences of dimensions
        Names for the dimensions of images and measurements without their batch, as in
        ``("C", "Nx", "Ny")``. A ``...`` at the front of both stands for any batch.
    complex_channels : bool
        Set it if the physics represents complex tensors by real ones, (B, 2, ...). The operator
        then takes complex tensors, and the channel has no name.
    name : str, optional

    Returns
    -------
    NamedLinop
        It has gradients if the physics has them. Its named dimensions cannot be sliced.

    Raises
    ------
    ImportError
        If DeepInverse is not installed (the extra ``deepinv``).
    TypeError
        If ``physics`` is not a LinearPhysics; when called, if it does not return a tensor (as
        stacked physics do).
    ValueError
        If ``...`` is at the front of one shape only. When called, if ``complex_channels`` is set
        and the physics does not return two real channels.
    """
    check_flags("from_deepinv", complex_channels=complex_channels)
    kind = optional_module("deepinv.physics", "from_deepinv", "deepinv").LinearPhysics
    if not isinstance(physics, kind):
        raise TypeError(f"from_deepinv: physics must be a LinearPhysics, got {type(physics)}")
    shape = NamedShape(ishape, oshape)
    begins = {side[:1] == (ELLIPSES,) for side in (shape.ishape, shape.oshape)}
    if len(begins) > 1 or ELLIPSES in (*shape.ishape[1:], *shape.oshape[1:]):
        raise ValueError(
            f"from_deepinv: a ... must be at the front of both shapes or nowhere, got {shape}"
        )
    return _PhysicsLinop(shape, physics, complex_channels, name or type(physics).__name__)


class _PhysicsLinop(NamedLinop):
    """An operator that calls a physics on tensors with any number of batch dimensions."""

    def __init__(self, shape: NamedShape, physics: Any, complex_channels: bool, name: str) -> None:
        super().__init__(shape, name)
        self.physics, self.complex_channels = physics, complex_channels

    @staticmethod
    def fn(linop: _PhysicsLinop, x: Tensor, /) -> Tensor:
        """Return A x."""
        return linop._call("A", x)

    @staticmethod
    def adj_fn(linop: _PhysicsLinop, x: Tensor, /) -> Tensor:
        """Return A^H x."""
        return linop._call("A_adjoint", x)

    @staticmethod
    def normal_fn(linop: _PhysicsLinop, x: Tensor, /) -> Tensor:
        """Return A^H A x."""
        return linop._call("A_adjoint_A", x)

    @staticmethod
    def adj_normal_fn(linop: _PhysicsLinop, x: Tensor, /) -> Tensor:
        """Return A A^H x."""
        return linop._call("A_A_adjoint", x)

    def _call(self, method: str, x: Tensor) -> Tensor:
        takes_image = method in ("A", "A_adjoint_A")
        dims = self.ishape if takes_image != self.is_adjoint else self.oshape
        n_dims = sum(dim != ELLIPSES for dim in dims)
        batch, lengths = x.shape[: x.ndim - n_dims], x.shape[x.ndim - n_dims :]
        x = x.reshape(prod(batch), *lengths)
        y = getattr(self.physics, method)(_as_channels(x) if self.complex_channels else x)
        if not isinstance(y, Tensor):
            raise TypeError(
                f"from_deepinv: {method} of {type(self.physics).__name__} must return a tensor, "
                f"got {type(y)}; use the parts of a stacked physics one by one"
            )
        y = _as_complex(y, "from_deepinv") if self.complex_channels else y
        return y.reshape(*batch, *y.shape[1:])


def _as_complex(x: Tensor, owner: str) -> Tensor:
    """Return the complex tensor (B, ...) for a real one (B, 2, ...)."""
    if not x.is_floating_point() or x.ndim < 2 or x.shape[1] != 2:
        raise ValueError(
            f"{owner}: with complex_channels tensors must be real with 2 channels, (B, 2, ...), "
            f"got {x.dtype} of shape {tuple(x.shape)}"
        )
    return torch.complex(x[:, 0], x[:, 1])


def _as_channels(y: Tensor) -> Tensor:
    """Return the real tensor (B, 2, ...) for a complex, or real, one (B, ...)."""
    return torch.stack(
        [y.real, y.resolve_conj().imag if y.is_complex() else torch.zeros_like(y)], 1
    )
