"""Shared by all laws: an operator, its inputs, and derived operators."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..._base._linop import NamedLinop
from ..._base._sizes import input_lengths
from .._real_matrices import dense
from .._tiles import sizes_of


class Applied(NamedTuple):
    """An operator, an input for it, and what it is to the operator of the test: "A.H"."""

    linop: NamedLinop
    x: Tensor
    name: str


class LinopFactories:
    """The factories to override, and helpers of the laws."""

    rtol = 1e-9
    """Largest error relative to the largest value, for weights in double precision."""

    def make_linop(self) -> NamedLinop:
        """Return a new operator with weights in double precision, the same on each call."""
        raise NotImplementedError(f"{type(self).__name__}: the class must override make_linop()")

    def sizes(self) -> Mapping[str, int]:
        """Return the sizes of the dimensions that the operator does not know."""
        return {}

    def also_saved(self) -> Iterable[Callable[..., object]] | None:
        """Return the classes that a file needs in addition to ``linops_core.safe_globals()``.

        None if these must not be allowed: objects of another library.
        """
        cls = type(self.make_linop())
        return [cls, *cls.saved_with]

    def make_input(self, linop: NamedLinop, dtype: torch.dtype = torch.complex128) -> Tensor:
        """Return a random input, a new one on each call."""
        return torch.randn(input_lengths(linop, self.sizes(), of_run=[2]), dtype=dtype)

    def derived(self, A: NamedLinop, dtype: torch.dtype = torch.complex128) -> list[Applied]:
        """Return A, A.H, A.N, A.H.N and A.T, each with an input of ``dtype``."""
        x = self.make_input(A, dtype)
        with torch.no_grad():
            y = torch.randn(A(x).shape, dtype=dtype)
        return [
            Applied(A, x, "A"),
            Applied(A.H, y, "A.H"),
            Applied(A.N, x, "A.N"),
            Applied(A.H.N, y, "A.H.N"),
            Applied(A.T, y, "A.T"),
        ]

    def real_and_complex(self) -> list[Applied]:
        """Return A, A.H and A.N, with a real and with a complex input for each."""
        A = self.make_linop()
        return [*self.derived(A, torch.float64)[:3], *self.derived(A)[:3]]

    def has_closed_normal(self, A: NamedLinop) -> bool:
        """Whether ``A.N`` is something else than the parts of A followed by the parts of A.H."""
        parts = [*A.flatten(), *A.H.flatten()]
        return [type(part) for part in A.N.flatten()] != [type(part) for part in parts]

    def close(self, x: Tensor, y: Tensor, rtol: float | None = None, scale: float = 0.0) -> bool:
        """Whether two results are equal within rounding.

        ``scale`` is the magnitude of the terms that a result may be the difference of: a derivative
        that is exactly 0 is compared with their rounding.
        """
        if x.shape != y.shape:
            return False
        return bool(((x - y).detach().abs() <= self._bound(x, y, rtol, scale)).all())

    def _bound(self, x: Tensor, y: Tensor, rtol: float | None, scale: float) -> float:
        largest = max(scale, largest_magnitude(x), largest_magnitude(y))
        return (self.rtol if rtol is None else rtol) * largest

    def agree(
        self,
        actual: Tensor,
        expected: Tensor,
        what: str,
        rtol: float | None = None,
        scale: float = 0.0,
    ) -> None:
        """Check that two results are equal within rounding; the error shows both.

        ``what`` is a formula, as in ``"A.H.N(x)"``; ``scale`` is that of :meth:`close`.
        """
        if self.close(actual, expected, rtol, scale):
            return
        how = f"shape {tuple(expected.shape)}, got shape {tuple(actual.shape)}"
        if actual.shape == expected.shape:
            far = largest_magnitude(actual - expected)
            bound = self._bound(actual, expected, rtol, scale)
            how = f"within {bound:.3g} of\n{expected}\ngot a difference of {far:.3g}:\n{actual}"
        raise AssertionError(f"{what} must be {how}")

    def dense(self, linop: NamedLinop) -> Tensor:
        """Return the matrix of an operator, which may be a derived one.

        If the original operator is linear over the reals only, it is the matrix over real and
        imaginary parts.
        """
        is_complex = self.make_linop().is_complex_linear
        return dense(linop, self.all_sizes(linop), is_complex).detach()

    def all_sizes(self, linop: NamedLinop) -> dict[str, int]:
        """Return the size of each dimension of ``linop``, which may be derived from the first."""
        A = self.make_linop()
        x = self.make_input(A)
        sides = ((A.ishape, x.shape), (A.oshape, A(x).shape))
        sizes = {str(dim): n for side in sides for dim, n in zip(*side, strict=True)}
        all_given = {**sizes, **self.sizes()}
        return {**all_given, **sizes_of(linop, defaultdict(int, all_given))}


def tensors_of(linop: NamedLinop) -> list[Tensor]:
    """Return all parameters and buffers."""
    return [*linop.parameters(), *linop.buffers()]


def has_tensors(value: object) -> bool:
    """Whether an argument is a tensor, or has some."""
    if isinstance(value, nn.Module):
        return bool([*value.parameters(), *value.buffers()])
    return isinstance(value, Tensor) or (
        isinstance(value, list | tuple) and any(map(has_tensors, value))
    )


def largest_magnitude(x: Tensor) -> float:
    """Return the largest absolute value, 0 for no elements."""
    return float(x.detach().abs().max()) if x.numel() else 0.0


def is_number(tensor: Tensor) -> bool:
    """Whether the tensor has real or complex numbers, not indices."""
    return tensor.is_floating_point() or tensor.is_complex()


def weights_of(linop: NamedLinop) -> dict[str, Tensor]:
    """Return the real and complex weights by their names, each once, without their gradients."""
    named = [*linop.named_parameters(), *linop.named_buffers()]
    return {name: tensor.detach() for name, tensor in named if is_number(tensor)}


def weights_with_owners(linop: NamedLinop) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Yield each real or complex weight with the module that keeps it and its name there."""
    for module in linop.modules():
        for kept in (module._parameters, module._buffers):
            for name, tensor in kept.items():
                if tensor is not None and is_number(tensor):
                    yield module, name, tensor


def parts(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the function of x that is the real and imaginary part of another."""
    return lambda x: torch.view_as_real(function(x) + 0j)


def energy(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the function of x that sums the squares of the output of another function."""
    return lambda x: parts(function)(x).square().sum()


@contextmanager
def known_deprecations() -> Iterator[None]:
    """Make a context for torch's forward mode and compiler, which use what torch deprecates."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)  # 2.15
        yield
