"""All laws together."""

from __future__ import annotations

from ._compiler import CompilerLaws
from ._copies import CopyLaws
from ._derivatives import DerivativeLaws
from ._devices import DeviceLaws
from ._freshness import FreshnessLaws
from ._matrix import MatrixLaws


class BaseNamedLinopTests(
    MatrixLaws, CopyLaws, FreshnessLaws, DeviceLaws, DerivativeLaws, CompilerLaws
):
    """Tests of one operator: values, adjoint, copies, devices, gradients, tiles, the compiler.

    Subclass it in a test file, with a name that pytest collects. Override ``make_linop``. Override
    ``sizes`` if the operator does not know all of its sizes, and ``make_input`` if it does not
    accept every random input. Use a small operator, so that the tests take a second or two.

    Examples
    --------
    >>> from linops_core import FFT, NamedLinop
    >>> class TestFFT(BaseNamedLinopTests):
    ...     def make_linop(self) -> NamedLinop:
    ...         return FFT(1)
    ...     def sizes(self):
    ...         return {"...": 2, "Nx": 3}
    >>> TestFFT().test_adjoint_satisfies_the_dot_test()
    """
