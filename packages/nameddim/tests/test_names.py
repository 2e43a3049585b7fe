import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameddim import K2N, N2K, ND, NamedDimension, get_nd_shape, partition
from nameddim.testing import dimensions, sides

GRID = dimensions(["C", "N", "Nx", "Nx1", "Ny2", "T"])


def test_names_of_grids() -> None:
    assert [get_nd_shape(ndim) for ndim in (1, 2, 3)] == [
        ("Nx",),
        ("Nx", "Ny"),
        ("Nx", "Ny", "Nz"),
    ]
    assert get_nd_shape(3, kspace=True) == ("Kx", "Ky", "Kz")
    assert all(type(dim) is NamedDimension for dim in get_nd_shape(3))


def test_number_of_dimensions_may_be_any_number_that_equals_it() -> None:
    assert get_nd_shape(2.0) == ("Nx", "Ny")  # type: ignore[arg-type]


@pytest.mark.parametrize("ndim", [0, 4, -1, 1.5])
def test_grid_without_usual_names_is_refused(ndim: int) -> None:
    with pytest.raises(ValueError, match=f"ndim must be 1, 2 or 3, got {ndim}"):
        get_nd_shape(ndim)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_grids_are_each_other_in_k_space(ndim: int) -> None:
    assert N2K(get_nd_shape(ndim)) == get_nd_shape(ndim, kspace=True)
    assert K2N(get_nd_shape(ndim, kspace=True)) == get_nd_shape(ndim)


@given(st.lists(GRID, unique=True))
def test_k_space_names_are_those_of_the_image_with_another_initial(
    dims: list[NamedDimension],
) -> None:
    there = N2K(dims)
    assert K2N(there) == tuple(dims)
    for dim, new in zip(dims, there, strict=True):
        assert type(new) is NamedDimension
        assert new.i == dim.i
        assert new[1:] == dim[1:]
        assert new[0] == ("K" if dim[0] == "N" else dim[0])


@given(sides(["C", "T"]))
def test_wildcards_and_other_names_stay(dims: tuple[NamedDimension, ...]) -> None:
    assert N2K(dims) == K2N(dims) == dims


def test_plain_string_is_read_as_dimensions() -> None:
    assert N2K("NxNy") == ("Kx", "Ky")
    assert K2N(ND("Kx")) == ("Nx",)


def test_dimensions_that_differ_stay_different() -> None:
    with pytest.raises(ValueError, match=r"N2K: .*, got \(Kx, Kx\) for \(Nx, Kx\)"):
        N2K(("Nx", "Kx"))
    with pytest.raises(ValueError, match=r"K2N: .*, got \(N, N\) for \(N, K\)"):
        K2N(("N", "K"))


@given(st.lists(st.sampled_from("ABC")), st.sampled_from("ABC"))
def test_parts_joined_give_the_sequence_again(seq: list[str], val: str) -> None:
    before, result, after = partition(seq, val)
    assert before + result + after == tuple(seq)
    assert val not in before
    assert result == ((val,) if val in seq else ())
    assert result or not after


def test_partition_agrees_with_that_of_strings() -> None:
    for text in ("", "A", "BAB", "BB", "ABA"):
        assert partition(text, "A") == tuple(map(tuple, text.partition("A")))
