from functools import reduce

import pytest
import torch

from linops_core import (
    Chain,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    Interpolate,
    NamedLinop,
    Role,
    Zero,
)
from linops_core._algebra._endomorphism import named_in_order, with_outputs_alike
from nameddim import ND, NamedShape


def matrix(n_rows: int = 3, n_columns: int = 4) -> Dense:
    return Dense(torch.randn(n_rows, n_columns, dtype=torch.complex128))


def test_what_has_its_input_names_in_the_output_maps_a_space_to_itself() -> None:
    assert Diagonal(torch.ones(2), ("N",)).is_endomorphism
    assert not matrix().is_endomorphism
    assert not matrix(3, 3).is_endomorphism


def test_a_normal_maps_a_space_to_itself_and_so_does_what_is_made_of_it() -> None:
    N = matrix().N
    assert (N.ishape, N.oshape) == (("N",), ("N1",))
    for linop in (
        N,
        N.H,
        N.T,
        N.conj(),
        2 * N,
        N @ N,
        N + N,
        N - Identity(),
        N.renamed({ND("N"): ND("K")}),
        N.resolved(),
        N**3,
    ):
        assert linop.is_endomorphism, linop
        assert linop.ishape != linop.oshape


def test_a_part_of_a_normal_does_not() -> None:
    A = matrix()
    window = {ND("N"): slice(0, 2)}
    for linop in (A.N, A.N + Identity(), A.N @ A.N):
        if linop.role("N") is not Role.OPAQUE:
            assert not linop.split(linop, window).is_endomorphism
    assert A.N.split(A.N, {ND("N"): slice(0, 2)}).shape == A.N.shape
    with pytest.raises(ValueError, match=r"Dense expects \(N\) but Dense returns \(N1\)"):
        A.N.split(A.N, window) @ A.N.split(A.N, window)


def test_what_follows_speaks_of_the_output_by_the_name_of_the_input() -> None:
    N, D = matrix().N, Diagonal(torch.ones(4), ("N",))
    assert [linop.ishape for linop in named_in_order([N, D])] == [("N",), ("N1",)]
    assert named_in_order([D, N])[1] is N
    again = named_in_order([N, D, N])
    assert [linop.oshape for linop in again] == [("N1",), ("N1",), ("N2",)]
    assert Chain(N, N).oshape == ("N2",)


def test_dimensions_inside_get_names_of_their_own_so_that_they_can_be_sliced() -> None:
    N = matrix().N
    assert (N @ N).role("M") is Role.INNER and (N @ N).role("M1") is Role.INNER
    assert (matrix() @ N).oshape == ("M",)


def test_names_that_do_not_fit_are_not_guessed() -> None:
    N = matrix().N
    with pytest.raises(ValueError, match=r"Chain: Diagonal expects \(K\) but Dense returns \(N1\)"):
        Diagonal(torch.ones(4), ("K",)) @ N
    with pytest.raises(ValueError, match=r"Chain: Dense expects \(N\) but Dense returns \(M\)"):
        N @ matrix()
    with pytest.raises(ValueError, match=r"Add: all must have one shape"):
        N + Diagonal(torch.ones(4), ("K",))
    with pytest.raises(ValueError, match=r"Add: all must have one shape"):
        N + Zero(("N",), ("N2",))


def test_terms_land_on_the_names_of_the_first_that_has_others() -> None:
    N = matrix().N
    terms = with_outputs_alike([Identity(), Diagonal(torch.ones(4), ("N",)), N])
    assert {term.oshape for term in terms} == {("N1",)}
    assert (Identity() + N).oshape == ("N1",)
    A = matrix()
    assert with_outputs_alike([A, N]) == [A, N]
    both = with_outputs_alike([N, N.renamed({ND("N1"): ND("K")})])
    assert {term.oshape for term in both} == {("N1",)}


def spaces_of_themselves() -> dict[str, NamedLinop]:
    """Operators of a space with Nx to itself, which name it with and without a run."""
    w = torch.randn(3, 4, dtype=torch.float64)
    wide = Dense(w, ("M", "Nx"), ("...", "Nx"), ("...", "M"))
    return {
        "convolution": Convolution(torch.randn(3, dtype=torch.float64)).N,
        "interpolation": Interpolate(torch.rand(5, 1, dtype=torch.float64), [4], grid_shape="Nx").N,
        "dense": Dense(w, ("M", "Nx")).N,
        "dense with a run": wide.N,
        "chain": Chain(wide, Diagonal(torch.randn(3, dtype=torch.float64), "M")).N,
        "diagonal": Diagonal(torch.randn(4, dtype=torch.float64), "Nx"),
        "nameless diagonal": Diagonal(torch.randn(4, dtype=torch.float64)),
        "number": 2 * Identity(),
    }


@pytest.mark.parametrize("one", spaces_of_themselves())
@pytest.mark.parametrize("other", spaces_of_themselves())
def test_a_run_of_one_is_resolved_by_the_other(one: str, other: str) -> None:
    A, B = spaces_of_themselves()[one], spaces_of_themselves()[other]
    x = torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close((A + B)(x), A(x) + B(x))
    torch.testing.assert_close((A @ B)(x), A(B(x)))
    torch.testing.assert_close((A + B).H(x), A.H(x) + B.H(x))
    torch.testing.assert_close((A + B).N(x), (A + B).H(A(x) + B(x)))
    long = (A + 0.1 * Identity() + B @ A) @ A + B
    first = A(x)
    torch.testing.assert_close(long(x), A(first) + 0.1 * first + B(A(first)) + B(x))


def test_runs_that_stand_for_different_dimensions_are_refused() -> None:
    A = Dense(torch.randn(3, 4), ("M", "Nx"), ("...", "Nx"), ("...", "M")).N
    B = Diagonal(torch.ones(2, 4), ("C", "Ny"))
    with pytest.raises(ValueError, match=r"Add: all must have one shape, got"):
        A + B


def test_a_chain_of_normals_is_that_of_a_loop_and_can_be_cut_along_every_dimension() -> None:
    parts = [Dense(torch.randn(2, 3, dtype=torch.float64), ("M", "N")).N for _ in range(4)]
    whole, one_by_one = Chain(*parts), reduce(lambda A, B: B @ A, parts)
    product = reduce(lambda a, b: b @ a, [part.to_dense() for part in parts])
    for A in (whole, one_by_one, parts[3] @ Chain(*parts[:3])):
        assert A.shape == NamedShape(("N",), ("N4",))
        assert A.dims == {"N", "N1", "N2", "N3", "N4", "M", "M1", "M2", "M3"}
        torch.testing.assert_close(A.to_dense(), product)
        assert all(A.why_opaque(dim) is None for dim in A.dims)
