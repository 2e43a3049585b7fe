"""Laws of all operators, on random compositions of them."""

import copy
import gc
import io
import pickle
import weakref

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Diagonal, NamedLinop, RealPart, Role, SplitError, Stack
from linops_core.testing._laws._factories import tensors_of, weights_with_owners
from linops_core.testing._laws._freshness import change_weights
from linops_core.testing.strategies import Known, LawError, Spaces, check, trees

TRANSFORM = FFT(1, grid_shapes=(("B",), ("C",)))
TRANSFORMS = Known(  # along the diagonal: their sizes are not known
    Stack(TRANSFORM, TRANSFORM, idim_and_idx=("A", 0), odim_and_idx=("E", 0)),
    torch.eye(2, dtype=torch.complex128),
    Spaces(("A", "B"), ("E", "C"), {"A": 2, "B": 1, "C": 1, "E": 2}),
)
REAL_PART = Known(
    RealPart(("A",)) @ Diagonal(torch.tensor([1j], dtype=torch.complex128), ("A",)),
    torch.tensor([[0.0, -1.0], [0.0, 0.0]], dtype=torch.float64),
    Spaces(("A",), ("A",), {"A": 1}),
)


def last_tiles(linop: NamedLinop, known: Known) -> list[NamedLinop]:
    """Return the last tile along each dimension, unless zeros beside blocks have unknown sizes."""
    results = []
    for dim in linop.dims:
        if linop.role(dim) is not Role.OPAQUE and linop.size(dim) is not None:
            last = slice(known.sizes_of(linop)[dim] - 1, None)
            try:
                results.append(linop.split(linop, {dim: last}))
            except SplitError as error:
                if "blocks are zero along" not in str(error):
                    raise
    return results


def derived(known: Known) -> list[NamedLinop]:
    """Return the adjoint, both normals, and one tile along each dimension of these."""
    A = known.linop
    linops = [A, A.H, A.N, A.H.N]
    return [*linops[1:], *(tile for linop in linops for tile in last_tiles(linop, known))]


def vector(known: Known, side: str, seed: int = 0) -> Tensor:
    lengths = known.spaces.lengths(getattr(known.spaces, side))
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(lengths, dtype=torch.complex128, generator=generator)


def dense(linop: NamedLinop, known: Known) -> Tensor:
    with torch.no_grad():
        return known.dense(linop)


@given(trees())
def test_a_composition_is_its_matrix_whole_and_in_tiles(known: Known) -> None:
    check(known)


@settings(max_examples=settings().max_examples // 2)
@given(trees(3))
def test_a_deep_composition_is_its_matrix_whole_and_in_tiles(known: Known) -> None:
    check(known)


@given(trees(1))
def test_the_check_sees_a_wrong_matrix(known: Known) -> None:
    wrong = Known(known.linop, known.matrix + 1, known.spaces, known.opaque)
    with pytest.raises(LawError, match="the matrix must be"):
        check(wrong)


@given(trees())
def test_derived_operators_and_tiles_hold_the_very_tensors_of(known: Known) -> None:
    own = {id(tensor) for tensor in tensors_of(known.linop)}
    for linop in derived(known):
        assert {id(tensor) for tensor in tensors_of(linop)} <= own


@given(trees(), st.integers(1, 3))
def test_tiles_in_a_row_are_those_that_are_cut_one_by_one(known: Known, length: int) -> None:
    A = known.linop
    for linop in (A, A.H, A.N):
        sizes = known.sizes_of(linop)
        for dim in linop.dims:
            if linop.role(dim) is Role.OPAQUE or linop.size(dim) is None:
                continue
            starts = range(0, sizes[dim], length)
            pieces = [slice(start, min(start + length, sizes[dim])) for start in starts]
            row = linop.tiles_along(dim, pieces)
            one_by_one = [linop.split(linop, {dim: piece}) for piece in pieces]
            assert [repr(tile) for tile in row] == [repr(tile) for tile in one_by_one]
            assert [tile.shape for tile in row] == [tile.shape for tile in one_by_one]
            for tile, other in zip(row, one_by_one, strict=True):
                known_sizes = {**sizes, dim: other.size(dim) or sizes[dim]}
                with torch.no_grad():
                    torch.testing.assert_close(
                        known.dense(tile, known_sizes), known.dense(other, known_sizes)
                    )


@given(trees())
def test_the_adjoint_of_the_adjoint_is_the_operator(known: Known) -> None:
    A = known.linop
    assert A.H.H is A
    assert A.H is A.H and A.N is A.N and A.gram is A.N
    assert (A.H.ishape, A.H.oshape) == (A.oshape, A.ishape)


@pytest.mark.parametrize("way", ["write", "replace", "load", "assign", "cast"])
@settings(max_examples=settings().max_examples // 2)
@given(known=trees())
def test_nothing_that_was_derived_before_is_out_of_date(way: str, known: Known) -> None:
    A = known.linop
    before = derived(known)
    change_weights(A, way)
    matrix = dense(A, known)
    after = derived(Known(copy.deepcopy(A), matrix, known.spaces, inner=known.inner))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape
        torch.testing.assert_close(dense(old, known), dense(new, known))
    torch.testing.assert_close(dense(A.H, known), matrix.mH)
    torch.testing.assert_close(dense(A.N, known), matrix.mH @ matrix)


@example(TRANSFORMS)
@given(trees())
def test_an_operator_is_freed_without_the_collector_of_cycles(known: Known) -> None:
    enabled = gc.isenabled()
    gc.disable()
    try:
        A = pickle.loads(pickle.dumps(known.linop))
        for linop in (A, A.H, A.N, A.H.N):
            last_tiles(linop, known)
        held = [weakref.ref(A), *(weakref.ref(tensor) for tensor in tensors_of(A))]
        del A, linop
        assert [ref() for ref in held] == [None] * len(held)
    finally:
        if enabled:
            gc.enable()


@given(trees())
def test_an_adjoint_outlives_its_operator(known: Known) -> None:
    adjoint = pickle.loads(pickle.dumps(known.linop)).H
    torch.testing.assert_close(dense(adjoint, known), known.matrix.mH)
    torch.testing.assert_close(dense(adjoint.H, known), known.matrix)


@example(REAL_PART)
@given(trees())
def test_gradients_to_the_input_are_those_of_the_matrix(known: Known) -> None:
    A = known.linop
    for linop, iside, oside in (
        (A, "ishape", "oshape"),
        (A.H, "oshape", "ishape"),
        (A.N, "ishape", "ishape"),
    ):
        x, y = vector(known, iside).requires_grad_(), vector(known, oside, 1)
        value = torch.vdot(y.flatten(), linop(x).flatten().to(y.dtype)).real  # RealPart's is real
        if value.requires_grad:  # it does not for Zero, whose output depends on nothing
            torch.autograd.backward(value)
        expected = known.product(y, dense(linop, known).mH)
        result = torch.zeros_like(x) if x.grad is None else x.grad
        torch.testing.assert_close(result.flatten(), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's forward mode, of itself
@given(trees())
def test_the_forward_derivative_is_that_of_the_matrix_and_of_the_backward_pass(
    known: Known,
) -> None:
    A = known.linop
    x, v, y = vector(known, "ishape"), vector(known, "ishape", 1), vector(known, "oshape", 2)
    torch.testing.assert_close(torch.func.jvp(A, (x,), (v,))[1], A(v))
    torch.testing.assert_close(torch.func.jvp(A.H, (y,), (y,))[1], A.H(y))
    torch.testing.assert_close(torch.func.jvp(A.N, (x,), (v,))[1], A.N(v))
    weights = {
        name: tensor.detach()
        for name, tensor in (*A.named_parameters(), *A.named_buffers())
        if tensor.is_floating_point() or tensor.is_complex()
    }
    changes = {name: torch.randn_like(tensor) for name, tensor in weights.items()}
    if not weights:
        return

    def pairing(values: dict[str, Tensor]) -> Tensor:
        applied: Tensor = torch.func.functional_call(A, values, (x,))
        return (y.conj() * applied).sum().real  # torch fails to flatten a conjugate in forward mode

    _, result, *_ = torch.func.jvp(pairing, (weights,), (changes,))
    gradients = torch.func.grad(pairing)(weights)
    expected = sum((gradients[name].conj() * changes[name]).real.sum() for name in weights)
    torch.testing.assert_close(result, torch.as_tensor(expected, dtype=result.dtype))


@given(trees())
def test_gradients_reach_the_weights_alike_through_the_operator_its_adjoint_and_its_tiles(
    known: Known,
) -> None:
    A = known.linop
    weights = [tensor.requires_grad_() for _, _, tensor in weights_with_owners(A)]
    x, y = vector(known, "ishape"), vector(known, "oshape", 1)

    def gradients(value: Tensor) -> list[Tensor]:
        if not value.requires_grad:
            return [torch.zeros_like(weight) for weight in weights]
        result = torch.autograd.grad(value.real, weights, allow_unused=True)
        return [
            torch.zeros_like(weight) if grad is None else grad
            for weight, grad in zip(weights, result, strict=True)
        ]

    if not weights:
        return
    expected = gradients(torch.vdot(y.flatten(), A(x).flatten()))
    through_adjoint = gradients(torch.vdot(A.H(y).flatten(), x.flatten()))
    torch.testing.assert_close(through_adjoint, expected)
    sizes = known.sizes_of(A)
    for dim in A.dims:
        if A.role(dim) is Role.OPAQUE:
            continue
        total = torch.zeros((), dtype=torch.complex128)
        for start in range(sizes[dim]):
            tile = A.split(A, {dim: slice(start, start + 1)})
            part, place = (
                narrowed(v, side, dim, start) for v, side in ((x, A.ishape), (y, A.oshape))
            )
            total = total + torch.vdot(place.flatten(), tile(part).flatten())
        torch.testing.assert_close(gradients(total), expected)


def narrowed(x: Tensor, names: tuple[str, ...], dim: str, start: int) -> Tensor:
    return x.narrow(names.index(dim), start, 1) if dim in names else x


@given(trees())
def test_replacing_tensors_for_one_call_leaves_the_operator_as_it_was(known: Known) -> None:
    A = known.linop
    x = vector(known, "ishape")
    for linop in (A, A.N, A.H.H):
        named = {**dict(linop.named_parameters()), **dict(linop.named_buffers())}
        zeros = {
            name: torch.zeros_like(tensor)
            for name, tensor in named.items()
            if tensor.is_floating_point() or tensor.is_complex()
        }
        torch.func.functional_call(linop, zeros, (x,))
    torch.testing.assert_close(dense(A, known), known.matrix)
    torch.testing.assert_close(dense(A.H, known), known.matrix.mH)


@settings(max_examples=settings().max_examples // 2)
@given(trees())
def test_copies_are_equal(known: Known) -> None:
    A = known.linop
    for linop in (A, A.H, A.N):
        stream = io.BytesIO()
        matrix = dense(linop, known)
        torch.save(linop, stream)
        stream.seek(0)
        others = [
            copy.copy(linop),
            copy.deepcopy(linop),
            pickle.loads(pickle.dumps(linop)),
            torch.load(stream, weights_only=False),
            linop.with_weights(Tensor.detach),
        ]
        for other in others:
            assert repr(other) == repr(linop)
            torch.testing.assert_close(dense(other, known), matrix)
            torch.testing.assert_close(dense(other.H, known), matrix.mH)


@given(trees())
def test_a_deep_copy_and_its_derived_operators_are_independent_of_the_first(known: Known) -> None:
    A = known.linop
    A.H, A.N  # noqa: B018 (so that there is something to carry over)
    other = copy.deepcopy(A)
    for tensor in tensors_of(other):
        tensor.detach().zero_()
    check(known)
    torch.testing.assert_close(dense(other.H, known), dense(other, known).mH)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@given(known=trees())
def test_modes_without_gradients_change_no_value(mode: type, known: Known) -> None:
    with mode():
        torch.testing.assert_close(known.dense(known.linop), known.matrix)
        x = vector(known, "ishape")
        y = known.linop.N(x)
        assert not y.requires_grad
    expected = known.product(x, known.matrix.mH @ known.matrix)
    torch.testing.assert_close(y.flatten().to(expected.dtype), expected)


@given(trees())
def test_real_inputs_and_single_precision_are_what_their_values_say(known: Known) -> None:
    A = known.linop
    x = vector(known, "ishape").real
    with torch.no_grad():
        torch.testing.assert_close(A(x).flatten().to(torch.complex128), known.product(x))
        y = A(x.to(torch.float32))
        torch.testing.assert_close(
            y.to(torch.complex128), A(x).to(torch.complex128), rtol=1e-4, atol=1e-4
        )


@settings(max_examples=settings().max_examples // 2)
@given(trees(1), st.data())
def test_the_input_is_never_written_to(known: Known, data: st.DataObject) -> None:
    with torch.no_grad():
        for linop in (known.linop, known.linop.H, known.linop.N):
            side = "oshape" if linop is known.linop.H else "ishape"
            x = vector(known, side)
            kept = x.clone()
            y = linop(x)
            again = linop(x)
            assert torch.equal(x, kept)
            torch.testing.assert_close(y, again)
