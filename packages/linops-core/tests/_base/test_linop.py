import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from linops_core import FFT, Add, Chain, Dense, Diagonal, Identity, NamedLinop, Scalar, SplitError
from linops_core._base._dimensions import named_axes
from nameddim import ND, NamedShape


class Flip(NamedLinop):
    """Reverse a signal; says nothing of slices."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",)))

    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return x.flip(-1)

    adj_fn = fn


def matrix() -> Dense:
    return Dense(nn.Parameter(torch.tensor([[1.0, 2j, 0.0], [0.0, 1.0, 3.0]])))


# What has to be written


def test_a_shape_is_needed() -> None:
    with pytest.raises(TypeError, match=r"NamedLinop: shape must be a NamedShape, got \('N',\)"):
        NamedLinop(("N",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda A, x: A(x), r"A: the class must override fn\(linop, x\)"),
        (lambda A, x: A.H(x), r"A: there is no adjoint; the class must override adj_fn"),
        (lambda A, x: A.normal_fn(A, x), r"A: there is no closed form of the normal; write A.N"),
    ],
)
def test_what_was_not_written_is_missed_when_it_is_needed(apply: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        apply(NamedLinop(NamedShape(("N",)), "A"), torch.ones(2))


def test_an_operator_without_split_is_opaque_and_refused_where_it_would_be_cut() -> None:
    A = Flip()
    assert str(A.role("N")) == "opaque"
    with pytest.raises(SplitError, match=r"Flip \(N\) -> \(N\): N cannot be split: .*override"):
        A.split(A, {ND("N"): slice(0, 1)})
    assert A.split(A, {ND("N"): slice(None), ND("M"): slice(0, 1)}) is A
    assert A.adj_split(A, {}) is A


class SaysItCan(Flip):
    """Claims that it can be cut, and does not say how."""

    def why_opaque(self, dim: str) -> str | None:
        return None


def test_an_operator_that_claims_to_be_sliceable_must_say_how() -> None:
    A = SaysItCan()
    with pytest.raises(SplitError, match=r"SaysItCan: the class must override split to cut"):
        A.split(A, {ND("N"): slice(0, 1)})


# Calls


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([1.0], TypeError, r"Dense: the input must be a torch.Tensor, got <class 'list'>; make it"),
        (
            Diagonal(torch.ones(2), ("N",)),
            TypeError,
            r"got .*Diagonal'>; compose operators with A @",
        ),
        (torch.ones(2, 3), ValueError, r"must have 1 dimensions for \(N\) -> \(M\).*\(2, 3\)"),
        (torch.ones(4), ValueError, r"Dense: N must have size 3, got 4 in an input of shape"),
        (torch.ones(1), ValueError, r"Dense: N must have size 3, got 1"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    x: Tensor, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        matrix()(x)


def test_an_ellipsis_needs_at_least_what_stands_beside_it() -> None:
    with pytest.raises(ValueError, match=r"FFT: the input must have at least 2 dimensions"):
        FFT(2)(torch.ones(3))


def test_sizes_behind_an_ellipsis_are_checked_from_the_end() -> None:
    A = Diagonal(torch.ones(3), ("...", "N"))
    assert A(torch.ones(2, 5, 3)).shape == (2, 5, 3)
    with pytest.raises(ValueError, match=r"Diagonal: N must have size 3, got 2"):
        A(torch.ones(3, 2))


def test_axes_behind_an_ellipsis_count_from_the_end() -> None:
    names = (ND("A"), ND("..."), ND("B"), ND("C"))
    assert named_axes(names) == [(0, "A"), (-2, "B"), (-1, "C")]


# Derived operators


def test_an_adjoint_is_made_once_and_holds_its_operator_weakly() -> None:
    A = matrix()
    assert A.H is A.H and A.H.H is A
    adjoint = A.H
    del A
    again = adjoint.H
    assert again.H is adjoint and again.weight is adjoint.weight


def test_the_normal_of_an_adjoint_is_not_that_of_the_operator() -> None:
    class Known(Dense):
        @staticmethod
        def normal_fn(linop: Any, x: Tensor) -> Tensor:
            return Dense.adj_fn(linop, Dense.fn(linop, x))

    A = Known(torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    x = torch.tensor([1.0, 0.0])
    assert A.N(x).tolist() == [1.0, 1.0]
    assert A.H.N(x).tolist() == [2.0, 1.0]
    assert A.H.H.N(x).tolist() == [1.0, 1.0]
    assert copy.copy(A.H).N(x).tolist() == [2.0, 1.0]


def test_a_closed_form_for_the_adjoint_is_used() -> None:
    class Known(Dense):
        @staticmethod
        def adj_normal_fn(linop: Any, x: Tensor) -> Tensor:
            return 7 * x

    A = Known(torch.ones(2, 2))
    assert A.H.N(torch.ones(2)).tolist() == [7.0, 7.0]
    assert A.N(torch.ones(2)).tolist() == [4.0, 4.0]


def test_what_cannot_follow_is_refused_and_what_can_is_not() -> None:
    F = FFT(1)
    F.norm = "backward"
    A = Chain(F, Scalar(2.0))
    A.N, A.H  # noqa: B018 (they are made of F)
    with pytest.raises(RuntimeError, match=r"FFT: norm must not change once .*got 'forward'"):
        F.norm = "forward"
    with pytest.raises(RuntimeError, match=r"Chain: 0 must not change once"):
        setattr(A, "0", Identity())
    D = Diagonal(torch.ones(2), ("N",))
    D.split(D, {ND("N"): slice(0, 1)})
    with pytest.raises(RuntimeError, match=r"Diagonal: gain must not change"):
        D.gain = 2
    D.weight = torch.zeros(2)
    D._private = 1
    assert not D.eval().training
    assert D.train().training


def test_the_setting_of_an_operand_whose_normal_is_the_identity_stays() -> None:
    F = FFT(1)
    assert Chain(F, Diagonal(torch.ones(3), ("...", "Kx"))).N is not None
    normal = Chain(FFT(1), F.H).N
    assert normal is not None
    with pytest.raises(RuntimeError, match=r"norm must not change"):
        F.norm = "forward"


def test_the_same_weights_are_listed_once() -> None:
    A = matrix()
    both = nn.ModuleList([A, A.H, A.N])
    assert list(dict(both.named_parameters(remove_duplicate=False))) == ["0.weight"]
    assert list(dict(Chain(A.H, A).named_parameters(remove_duplicate=False))) == ["0.weight"]
    assert [name for name, _ in A.N.named_modules()] == ["", "0"]


def test_a_model_of_an_operator_and_its_adjoint_survives_a_functional_call() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.A = matrix()
            self.B = self.A.H

        def forward(self, x: Tensor) -> Tensor:
            return self.B(self.A(x))

    model = Model()
    before = model(torch.ones(3))
    named = {"A.weight": torch.zeros(2, 3)}
    assert not torch.func.functional_call(model, named, torch.ones(3)).any()
    assert torch.equal(model(torch.ones(3)), before)


# Slices


def test_the_part_between_slices_of_both_sides() -> None:
    A = matrix()
    part = A.split_forward([slice(1, 3)], [slice(0, 1)])
    assert torch.equal(part.to_dense(dtype=torch.complex64), A.weight[:1, 1:])
    adjoint = A.H.split_forward([slice(0, 1)], [slice(1, 3)])
    assert torch.equal(adjoint.to_dense(dtype=torch.complex64), A.weight[:1, 1:].mH)


def test_slices_for_a_part_must_fit_the_shape() -> None:
    A = Diagonal(torch.ones(3), ("N",))
    with pytest.raises(SplitError, match=r"one slice must be given for each input dimension, got"):
        A.split_forward([], [slice(0, 1)])
    with pytest.raises(SplitError, match=r"N must have the same slice on both sides, got slice\(0"):
        A.split_forward([slice(0, 1)], [slice(1, 2)])


@pytest.mark.parametrize("dim", ["...", "(1)"])
def test_what_has_no_name_cannot_be_sliced(dim: str) -> None:
    A = Diagonal(torch.ones(3))
    assert A.split(A, {ND(dim): slice(None)}) is A
    with pytest.raises(SplitError, match=r"must have a name to be split along, got slice\(0, 1"):
        A.split(A, {ND(dim): slice(0, 1)})
    with pytest.raises(SplitError, match=r"must have a name to be split along"):
        A.split_forward([slice(0, 1), slice(0, 1)], [slice(0, 1), slice(0, 1)])


def test_dimensions_that_an_operator_does_not_have_are_ignored() -> None:
    A = matrix()
    assert A.split(A, {ND("Q"): slice(0, 1)}) is A
    assert A.role("Q") is None


# Algebra


def test_the_algebra_is_that_of_matrices() -> None:
    A, B = matrix(), matrix()
    M = A.to_dense()
    for linop, expected in (
        (A + B, 2 * M),
        (A - B, 0 * M),
        (-A, -M),
        (2j * A, 2j * M),
        (A * 2j, 2j * M),
        (A / 4, M / 4),
        (sum([A], start=B), 2 * M),
        (0 + A, M),
        (A.H @ B, M.mH @ M),
        (A.compose(B.H), M @ M.mH),
        (np.float64(2) * A, 2 * M),
        (A * complex(np.complex64(2j)), 2j * M),
        (torch.tensor(3.0) * A, 3 * M),
    ):
        torch.testing.assert_close(linop.to_dense(), expected)
    assert torch.equal(A @ torch.ones(3), A(torch.ones(3)))


def test_a_number_that_is_trained_gets_its_gradient() -> None:
    weight = torch.tensor(2.0, requires_grad=True)
    A = matrix() * weight
    torch.autograd.backward(A.N(torch.ones(3)).sum().abs())
    assert weight.grad is not None and float(weight.grad) != 0


@pytest.mark.parametrize(
    "combine",
    [
        lambda A: A + 1,
        lambda A: 1 + A,
        lambda A: A - 1,
        lambda A: A * None,
        lambda A: np.ones(3) * A,
        lambda A: np.ones(3) + A,
        lambda A: A * torch.ones(2),
        lambda A: A / A,
        lambda A: A / torch.ones(2),
        lambda A: A @ np.ones(3),
        lambda A: A @ 2,
    ],
)
def test_what_is_no_algebra_is_refused(combine: Any) -> None:
    with pytest.raises(TypeError, match=r"unsupported operand|the operand of . must be"):
        combine(matrix())


# Moving and looking


def test_casting_keeps_parameters_and_kinds() -> None:
    A = Add(matrix(), Dense(torch.ones(2, 3)))
    (weight,) = A.parameters()
    assert A.to(torch.float64) is A
    assert list(A.parameters()) == [weight] and weight.dtype == torch.complex128
    assert [buffer.dtype for buffer in A.buffers()] == [torch.float64]
    assert [b.dtype for b in A.to("cpu", torch.complex64).buffers()] == [torch.float32]
    with pytest.raises(TypeError, match=r"precision of an operator must be a floating"):
        A.to(torch.int32)


def test_a_memory_aware_move_keeps_shared_storage_shared() -> None:
    flat = torch.arange(6.0)
    A = Chain(Diagonal(flat[:3], ("N",)), Diagonal(flat[2:5], ("N",)))
    del flat
    adjoint = A.H
    before = A(torch.ones(3))
    assert A.to(dtype=torch.float64, memory_aware=True) is A
    first, second = A.buffers()
    assert first.dtype == second.dtype == torch.float64
    assert first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert torch.equal(A(torch.ones(3)), before)
    first.zero_()
    assert not adjoint(torch.ones(3)).any()
    assert second[0] == 0


def test_a_deep_copy_keeps_shared_storage_shared() -> None:
    flat = torch.arange(6.0)
    A = Chain(Diagonal(flat[:3], ("N",)), Diagonal(flat[2:5], ("N",)))
    first, second = copy.deepcopy(A).buffers()
    first.zero_()
    assert second.tolist() == [0, 3, 4]
    assert flat.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_dense_matrix_needs_all_sizes() -> None:
    with pytest.raises(ValueError, match=r"FFT .*: the size of Nx must be known to the operator"):
        FFT(1).to_dense({"...": 2})
    assert FFT(1).to_dense({"Nx": 2}).shape == (2, 2)
    assert FFT(1).to_dense({"...": 3, "Nx": 2}).shape == (6, 6)


def test_only_an_operator_can_be_inside_of_a_normal() -> None:
    x: Any = torch.ones(3)
    for A in (FFT(1), matrix().H @ matrix(), matrix() + matrix(), matrix().N):
        with pytest.raises(TypeError, match=r"the inner operator of a normal must be a NamedLinop"):
            A.normal(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"a NamedLinop, got .*Tensor.*, call A\.N\(x\)$"):
            A.normal(x)


def test_the_signature_names_operator_and_dimensions() -> None:
    assert FFT(2).signature == "FFT (..., Nx, Ny) -> (..., Kx, Ky)"
    assert repr(matrix()) == "Dense (N) -> (M)  weight: complex64 (2, 3) cpu 48 B"
    assert NamedLinop(NamedShape(("N",)), "A").name == "A"


def test_a_class_that_overrides_forward_inherits_no_normal() -> None:
    class Doubled(Diagonal):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    A = Doubled(torch.rand(3, dtype=torch.complex128), ("N",))
    for linop in (A, A @ A, Dense(torch.rand(2, 3, dtype=torch.complex128)) @ A):
        dense = linop.to_dense()
        torch.testing.assert_close(linop.H.to_dense(), dense.mH)
        torch.testing.assert_close(linop.N.to_dense(), dense.mH @ dense)


def test_a_class_that_overrides_call_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Doubled: an operator must override fn\(linop, x\)"):

        class Doubled(Diagonal):
            def __call__(self, x: Tensor) -> Tensor:
                return 2 * super().__call__(x)


def test_a_class_that_says_anew_what_it_does_inherits_no_closed_form() -> None:
    class Five(FFT):
        @staticmethod
        def fn(linop: FFT, x: Tensor, /) -> Tensor:
            return 5 * FFT.fn(linop, x)

        @staticmethod
        def adj_fn(linop: FFT, x: Tensor, /) -> Tensor:
            return 5 * FFT.adj_fn(linop, x)

    class Gain(Diagonal):
        @staticmethod
        def fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            return 3 * linop.weight * x

        @staticmethod
        def adj_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            return 3 * linop.weight.conj() * x

    class Known(Gain):
        @staticmethod
        def normal_fn(linop: Diagonal, x: Tensor, /) -> Tensor:
            return 9 * linop.weight.abs().square() * x

    x = torch.ones(3, dtype=torch.complex128)
    weight = torch.tensor([1.0, 2j, 3.0], dtype=torch.complex128)
    for A in (Five(1), Five(1, centered=True), Gain(weight, ("N",)), Known(weight, ("N",))):
        for linop in (A, A.H, Diagonal(torch.ones(3)) @ A):
            torch.testing.assert_close(linop.N(x), linop.H(linop(x)))
        torch.testing.assert_close(A.conj()(x).resolve_conj(), A(x.conj()).conj().resolve_conj())


def test_a_class_that_only_adds_to_an_operator_keeps_its_closed_forms() -> None:
    class Named(FFT):
        def describe(self) -> str:
            return "a transform"

    assert isinstance(Named(1).N, Identity)


class OfOwnWeight(NamedLinop):
    """A matrix of 2 rows and 3 columns that says nothing of slices."""

    def __init__(self) -> None:
        super().__init__(NamedShape(("N",), ("M",)))
        self.weight = nn.Parameter(torch.ones(2, 3))

    def size(self, dim: str) -> int | None:
        return {"M": 2, "N": 3}.get(str(dim))

    @staticmethod
    def fn(linop: Any, x: Tensor) -> Tensor:
        return torch.matmul(linop.weight, x)

    @staticmethod
    def adj_fn(linop: Any, y: Tensor) -> Tensor:
        return torch.matmul(linop.weight.mH, y)


def new_attribute(A: NamedLinop, shape: tuple[int, int]) -> None:
    A.weight = nn.Parameter(torch.ones(shape))


def new_data(A: NamedLinop, shape: tuple[int, int]) -> None:
    assert isinstance(A.weight, nn.Parameter)
    A.weight.data = torch.ones(shape)


@pytest.mark.parametrize("replace", [new_attribute, new_data])
def test_a_weight_of_another_shape_is_seen_by_all_that_were_derived(replace: Any) -> None:
    A = OfOwnWeight()
    A.H(torch.ones(2))
    replace(A, (2, 4))
    with pytest.raises(ValueError, match=r"N must have size 3.*got 4|output.*4"):
        A.H(torch.ones(2))
    for names in ({}, {ND("N"): ND("K")}):
        A = OfOwnWeight()
        B = A.renamed(names)
        B(torch.ones(3))
        replace(A.H, (5, 3))
        with pytest.raises(ValueError, match=r"M must have size 2.*got 5|output.*5"):
            B(torch.ones(3))


@pytest.mark.parametrize("names", ["N", ("N", "K"), None, 3])
def test_names_that_are_no_mapping_are_refused(names: Any) -> None:
    A = matrix()
    for B in (A, A + A):
        with pytest.raises(TypeError, match=r": names must be a mapping of old names to new ones"):
            B.renamed(names)


def test_an_operator_has_at_most_fifty_names_more_than_a_module() -> None:
    own = {*dir(NamedLinop)} - {*dir(nn.Module())}
    assert len([name for name in own if not name.endswith("__")]) <= 50
