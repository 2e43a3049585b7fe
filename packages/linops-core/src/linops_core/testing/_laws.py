"""The laws of linear operators, as tests to inherit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import torch
from torch import Tensor

from nameddim import NamedDimension

from .._linop import NamedLinop
from .._roles import Role
from ._dottest import dottest, input_lengths
from ._tiles import tiles_of, whole_of


class BaseNamedLinopTests:
    """Every law that an operator obeys, as the tests of one operator.

    Subclass it in a test file, with a name that pytest collects, and override
    :meth:`make_linop`, and :meth:`sizes` where the operator does not know all of its sizes.

    Examples
    --------
    >>> from linops_core import FFT
    >>> class TestFFT(BaseNamedLinopTests):
    ...     def make_linop(self) -> NamedLinop:
    ...         return FFT(1)
    ...     def sizes(self):
    ...         return {"...": 2, "Nx": 3}
    >>> TestFFT().test_adjoint_satisfies_the_dot_test()
    """

    rtol = 1e-9
    """Largest error, relative to the largest value; for weights in double precision."""

    def make_linop(self) -> NamedLinop:
        """Return a new operator with weights in double precision, the same on each call."""
        raise NotImplementedError(f"{type(self).__name__}: the class must override make_linop()")

    def sizes(self) -> Mapping[str, int]:
        """Return the sizes of those dimensions that the operator does not know."""
        return {}

    def make_input(self, linop: NamedLinop, dtype: torch.dtype = torch.complex128) -> Tensor:
        """Return a random input, another one on each call."""
        return torch.randn(input_lengths(linop, self.sizes()), dtype=dtype)

    def close(self, x: Tensor, y: Tensor) -> bool:
        """Whether two results are equal but for rounding."""
        x, y = x.detach(), y.detach()
        largest = max([0.0, *(float(t.abs().max()) for t in (x, y) if t.numel())])
        return x.shape == y.shape and bool(((x - y).abs() <= self.rtol * largest).all())

    def dense(self, linop: NamedLinop, sizes: Mapping[str, int] | None = None) -> Tensor:
        """Return the matrix of the operator."""
        known = {**self.sizes(), **(sizes or {})}
        lengths = dict(zip(linop.ishape, input_lengths(linop, known), strict=True))
        return linop.to_dense({str(dim): length for dim, length in lengths.items()})

    def test_is_linear(self) -> None:
        A = self.make_linop()
        x, z, c = self.make_input(A), self.make_input(A), 2 - 3j
        assert self.close(A(c * x + z), c * A(x) + A(z))

    def test_output_has_the_dimensions_of_oshape(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        lengths = dict(zip(A.ishape, x.shape, strict=True))
        y = A(x)
        assert y.ndim == len(A.oshape)
        for dim, length in zip(A.oshape, y.shape, strict=True):
            assert A.size(dim) in (None, length)
            assert A.role(dim) is not Role.BATCH or lengths[dim] == length

    def test_real_inputs_give_what_complex_ones_of_that_value_give(self) -> None:
        A = self.make_linop()
        x = self.make_input(A, torch.float64)
        assert self.close(A(x), A(x.to(torch.complex128)))

    def test_adjoint_satisfies_the_dot_test(self) -> None:
        dottest(self.make_linop(), self.sizes())

    def test_adjoint_is_the_conjugate_transpose(self) -> None:
        A = self.make_linop()
        rows = dict(zip(A.oshape, A(self.make_input(A)).shape, strict=True))
        sizes = {str(dim): length for dim, length in rows.items()}
        assert self.close(self.dense(A.H, sizes), self.dense(A).mH)

    def test_adjoint_of_the_adjoint_is_the_operator(self) -> None:
        A = self.make_linop()
        assert A.H.H is A
        assert A.H.shape == A.shape.H

    def test_normal_is_the_adjoint_after_the_operator(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        assert self.close(A.N(x), A.H(A(x)))
        y = A(x)
        assert self.close(A.H.N(y), A(A.H(y)))

    def test_derived_operators_hold_the_same_tensors(self) -> None:
        A = self.make_linop()
        own = {id(tensor) for tensor in (*A.parameters(), *A.buffers())}
        for derived in (A.H, A.N, A.H.N):
            assert {id(t) for t in (*derived.parameters(), *derived.buffers())} <= own

    def test_tiles_make_up_the_whole_along_every_dimension_that_is_not_opaque(self) -> None:
        A = self.make_linop()
        for linop in (A, A.H, A.N):
            for dim in sorted(linop.dims):
                if linop.role(dim) is Role.OPAQUE:
                    assert linop.why_opaque(dim)
                else:
                    self.check_tiles(linop, dim)

    def check_tiles(self, linop: NamedLinop, dim: NamedDimension) -> None:
        """Check that tiles of ``linop`` along ``dim`` make up the whole."""
        known = self.all_sizes(linop)
        for length in range(1, known[dim] + 1):
            tiles = tiles_of(linop, dim, length, known)
            assert self.close(whole_of(tiles, linop, dim, known), linop.to_dense(known))

    def all_sizes(self, linop: NamedLinop) -> dict[str, int]:
        """Return the size of each dimension of ``linop``, which may be derived from the first."""
        A = self.make_linop()
        x = self.make_input(A)
        known: dict[str, int] = {**self.sizes()}
        for names, lengths in ((A.ishape, x.shape), (A.oshape, A(x).shape)):
            for dim, length in zip(names, lengths, strict=True):
                known.setdefault(str(dim), length)
        for dim in linop.dims:
            size = linop.size(dim)
            known[str(dim)] = known.get(dim.name, 0) if size is None else size
        return known

    def test_shallow_copy_shares_tensors_and_no_dictionary(self) -> None:
        A = self.make_linop()
        other = copy.copy(A)
        tensors = [[*linop.parameters(), *linop.buffers()] for linop in (A, other)]
        assert all(a is b for a, b in zip(*tensors, strict=True))
        for name in ("_parameters", "_buffers", "_modules"):
            assert vars(other)[name] is not vars(A)[name]
        x = self.make_input(A)
        assert self.close(other(x), A(x))
        assert other.H is not A.H

    def test_deep_copy_is_equal_and_shares_no_memory(self) -> None:
        A = self.make_linop()
        other = copy.deepcopy(A)
        x = self.make_input(A)
        assert self.close(other(x), A(x))
        assert self.close(other.H(A(x)), A.H(A(x)))
        storages = [
            {t.untyped_storage().data_ptr() for t in (*linop.parameters(), *linop.buffers())}
            for linop in (A, other)
        ]
        assert len(storages[0]) == len(storages[1])
        assert not storages[0] & storages[1] - {0}

    def test_pickle_keeps_the_operator(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        for linop, z in ((A, x), (A.H, A(x)), (A.N, x)):
            other = pickle.loads(pickle.dumps(linop))
            assert repr(other) == repr(linop)
            assert self.close(other(z), linop(z))

    def test_state_dict_carries_all_values(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        y = A(x)
        other = copy.deepcopy(A)
        adjoint, normal = other.H, other.N
        for tensor in (*other.parameters(), *other.buffers()):
            tensor.detach().zero_()
        other.load_state_dict(A.state_dict())
        assert self.close(other(x), y)
        assert self.close(adjoint(y), A.H(y))
        assert self.close(normal(x), A.N(x))

    def test_gradients_to_the_input_are_right(self) -> None:
        A = self.make_linop()
        x = self.make_input(A).requires_grad_()
        y = A(x).detach().requires_grad_()
        for linop, z in ((A, x), (A.H, y), (A.N, x)):
            if linop(z).requires_grad:
                assert torch.autograd.gradcheck(linop, z)
                assert torch.autograd.gradgradcheck(linop, z, fast_mode=True)
            else:  # what does not depend on its input
                assert not linop(z).any()

    def test_gradients_to_the_weights_are_right(self) -> None:
        A = self.make_linop()
        x = self.make_input(A)
        for linop, z in ((A, x), (A.H, A(x).detach()), (A.N, x)):
            self.check_gradients_to_weights(linop, z)

    def check_gradients_to_weights(self, linop: NamedLinop, z: Tensor) -> None:
        """Check by finite differences the gradients to what ``linop`` reads when applied to z."""
        tensors = {**dict(linop.named_parameters()), **dict(linop.named_buffers())}
        weights = {
            name: tensor.detach().clone().requires_grad_()
            for name, tensor in tensors.items()
            if tensor.is_floating_point() or tensor.is_complex()
        }

        def applied(*values: Tensor) -> Tensor:
            named = dict(zip(weights, values, strict=True))
            result: Tensor = torch.func.functional_call(linop, named, (z,))
            return result

        if weights:
            assert torch.autograd.gradcheck(applied, tuple(weights.values()))

    def test_casting_changes_the_precision_and_not_the_kind(self) -> None:
        A = self.make_linop()
        adjoint, normal = A.H, A.N
        kinds = [tensor.is_complex() for tensor in (*A.parameters(), *A.buffers())]
        assert A.to(torch.float32) is A
        tensors = (*A.parameters(), *A.buffers())
        assert [tensor.is_complex() for tensor in tensors] == kinds
        assert not {tensor.dtype for tensor in tensors} & {torch.float64, torch.complex128}
        x = self.make_input(A, torch.complex64)
        y = A(x)
        assert {y.dtype, adjoint(y).dtype, normal(x).dtype} == {torch.complex64}
