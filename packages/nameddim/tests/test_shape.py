import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameddim import ELLIPSES, ND, NS, NamedDimension, NamedShape, is_any
from nameddim.testing import dimensions, shapes, sides

Dims = tuple[NamedDimension, ...]


def tuples_of(shape: NamedShape) -> list[Dims]:
    return [shape.ishape, shape.oshape, *shape.other_shapes.values()]


@given(sides(), sides(), sides())
def test_holds_what_it_is_made_of(ishape: Dims, oshape: Dims, batch: Dims) -> None:
    texts = [[str(dim) for dim in dims] for dims in (ishape, oshape, batch)]
    shape = NS(texts[0], iter(texts[1]), batch_shape=texts[2])
    assert tuples_of(shape) == [ishape, oshape, batch]
    assert shape.batch_shape == shape.other_shapes["batch_shape"] == batch
    assert all(type(dim) is NamedDimension for dims in tuples_of(shape) for dim in dims)
    assert shape == NS(ishape, oshape, batch_shape=batch)


@given(sides())
def test_output_is_the_input_unless_given(dims: Dims) -> None:
    assert NS(dims) == NS(dims, dims)
    assert NS(dims, ()).oshape == ()


def test_none_is_any_shape() -> None:
    assert NS(None) == NS(("...",)) == NS(("...",), ("...",))
    assert NS(None, ("A",)).ishape == ("...",)


@given(shapes())
def test_a_shape_of_a_shape_is_that_shape(shape: NamedShape) -> None:
    assert NS(shape) is shape
    for more in ({"oshape": ("A",)}, {"batch_shape": ()}):
        with pytest.raises(TypeError, match="a shape must be given alone, got"):
            NS(shape, **more)


@given(sides("AB", 3, False), sides("CD", 3), sides("AB", 3), sides("CD", 3, False))
def test_the_sum_of_shapes_has_the_dimensions_of_both(a: Dims, b: Dims, c: Dims, d: Dims) -> None:
    left, right = NS(a, c, weight_shape=a), NS(b, d, batch_shape=b)
    assert left + right == NS(a + b, c + d, weight_shape=a, batch_shape=b)
    assert (left + right).H == left.H + right.H


def test_shapes_that_cannot_be_added_are_refused() -> None:
    with pytest.raises(ValueError, match="ishape must have different dimensions"):
        NS(("A", "B")) + NS(("B",))
    with pytest.raises(ValueError, match="must have different names, got 'w' in both"):
        NS("A", v="A", w="A") + NS("B", w="B", x="B")
    with pytest.raises(TypeError, match="unsupported operand"):
        NS("A") + "B"  # type: ignore[operator]


def test_plain_string_is_read_as_dimensions() -> None:
    assert NS("CNxNy", "...") == NS(("C", "Nx", "Ny"), ("...",))
    assert NS(ND("NxNy")).ishape == ("NxNy",)


@given(shapes(), shapes())
def test_shapes_are_equal_if_all_their_tuples_are(a: NamedShape, b: NamedShape) -> None:
    same = (a.ishape, a.oshape, dict(a.other_shapes)) == (b.ishape, b.oshape, dict(b.other_shapes))
    assert (a == b) == same
    assert not same or hash(a) == hash(b)


def test_order_of_other_shapes_does_not_count() -> None:
    one, other = NS("A", b="B", c="C"), NS("A", c="C", b="B")
    assert one == other
    assert hash(one) == hash(other)
    assert one != NS("A", b="C", c="B")
    assert one != NS("A", b="B")
    assert (one == ("A", "A")) is False


@given(shapes())
def test_copies_are_equal_shapes(shape: NamedShape) -> None:
    assert copy.copy(shape) is copy.deepcopy(shape) is shape
    for protocol in range(6):
        other = pickle.loads(pickle.dumps(shape, protocol))
        assert other == shape
        assert hash(other) == hash(shape)
        assert repr(other) == repr(shape)


def test_is_immutable() -> None:
    shape = NS("A", "B", batch_shape="C")
    with pytest.raises(AttributeError, match="must be replaced, not edited, got a new 'ishape'"):
        shape.ishape = ()
    with pytest.raises(AttributeError, match="got a new 'batch_shape'"):
        shape.batch_shape = ()
    with pytest.raises(AttributeError, match="must not be deleted, got 'ishape'"):
        del shape.ishape
    with pytest.raises(TypeError, match="does not support item assignment"):
        shape.other_shapes["batch_shape"] = ()  # type: ignore[index]


def test_unknown_attribute_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"one of \(A\) -> \(B\), c=\(C\), got 'd'"):
        _ = NS("A", "B", c="C").d
    assert not hasattr(NS("A"), "__array__")


def test_prints_all_its_tuples() -> None:
    assert repr(NS(("...", "Nx"), ("(1)",), b=())) == "(..., Nx) -> ((1)), b=()"


@pytest.mark.parametrize(
    ("dims", "position", "column"),
    [(("A", "B", "A"), 2, 7), (("A", "A"), 1, 4), (("(1)", "()", "(1)"), 2, 10)],
)
def test_second_dimension_of_a_name_is_refused(dims: Dims, position: int, column: int) -> None:
    for side in ("ishape", "oshape", "batch_shape"):
        with pytest.raises(
            ValueError, match=f"{side} must have different dimensions, got a second"
        ) as caught:
            NS(**{"ishape": ("A",), side: dims})
        first, shown, caret = str(caught.value).split("\n")
        assert f"second {dims[-1]!r} at position {position} of ({', '.join(dims)})" in first
        assert shown == f"    ({', '.join(dims)})"
        assert caret == "    " + " " * column + "^"


def test_second_ellipsis_is_refused() -> None:
    with pytest.raises(ValueError, match="oshape must have at most one ellipsis"):
        NS("A", ("...", "A", "...", "B"))
    with pytest.raises(ValueError, match="batch_shape must have at most one ellipsis"):
        NS("A", "A", batch_shape=("...", "..."))


@pytest.mark.parametrize("key", ["H", "N", "dims", "resolve", "other_shapes", "_private", "a b"])
def test_other_shape_with_the_name_of_an_attribute_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=rf"is no attribute of every shape, got '{key}'"):
        NS("A", **{key: "B"})


def test_what_is_no_shape_is_refused() -> None:
    with pytest.raises(TypeError, match="or an iterable of strings, got 3"):
        NS(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a name must be an identifier"):
        NS(("N x",))
    with pytest.raises(TypeError, match="must have an order, as in a tuple, got the set"):
        NS({"Nx", "Ny"})


@given(shapes())
def test_adjoint_swaps_and_is_its_own_inverse(shape: NamedShape) -> None:
    adjoint = shape.adjoint()
    assert (adjoint.ishape, adjoint.oshape) == (shape.oshape, shape.ishape)
    assert adjoint.other_shapes == shape.other_shapes
    assert shape.H == adjoint
    assert adjoint.H == shape


@given(shapes(names=["A", "A1", "A2", "B", "B1"], max_size=4))
def test_normal_never_names_two_dimensions_alike(shape: NamedShape) -> None:
    normal = shape.N
    assert normal == shape.normal()
    assert normal.ishape == shape.ishape
    assert normal.other_shapes == shape.other_shapes
    assert normal == NamedShape(normal.ishape, normal.oshape, **normal.other_shapes)
    elsewhere = {dim for dims in tuples_of(shape) for dim in dims}
    for dim, new in zip(normal.ishape, normal.oshape, strict=True):
        if dim in shape.oshape or dim == ELLIPSES or is_any(dim):
            assert new == dim
        else:
            assert new not in elsewhere
            assert new.name == dim.name
            assert new.i > dim.i


def test_normal_takes_the_first_index_that_is_unused() -> None:
    assert NS(("N",), ("M",)).N == NS(("N",), ("N1",))
    assert NS(("C", "N"), ("C", "M")).N == NS(("C", "N"), ("C", "N1"))
    assert NS(("A1", "A"), ("B",)).N == NS(("A1", "A"), ("A2", "A3"))
    assert NS(("N",), ("N1",), b=("N2",)).N == NS(("N",), ("N3",), b=("N2",))


@given(shapes())
def test_dims_are_all_names(shape: NamedShape) -> None:
    everything = {dim for dims in tuples_of(shape) for dim in dims}
    wild = {dim for dim in everything if dim == ELLIPSES or is_any(dim)}
    assert shape.dims == everything - wild
    assert shape.has_wildcards == bool(wild)


NAMES = dimensions("ABCDEF")


@given(shapes(), st.dictionaries(NAMES, NAMES))
def test_rename_replaces_all_at_once_or_refuses(
    shape: NamedShape, names: dict[NamedDimension, NamedDimension]
) -> None:
    kept = {names.get(dim, dim) for dim in shape.dims}
    if len(kept) < len(shape.dims):
        with pytest.raises(ValueError, match=r"must stay distinct, got '.' for both '.' and '.'"):
            shape.rename(names)
        return
    new = shape.rename({str(old): str(name) for old, name in names.items()})
    assert tuples_of(new) == [
        tuple(names.get(dim, dim) for dim in dims) for dims in tuples_of(shape)
    ]
    assert new.other_shapes.keys() == shape.other_shapes.keys()
    assert all(type(dim) is NamedDimension for dims in tuples_of(new) for dim in dims)
    back = {names.get(dim, dim): dim for dim in shape.dims}
    assert new.rename(back) == shape
    assert new.H == shape.H.rename(names)


@given(shapes())
def test_rename_of_nothing_changes_nothing(shape: NamedShape) -> None:
    assert shape.rename({}) == shape == shape.rename({"Q": "R"})


def test_rename_of_wildcards_is_refused() -> None:
    for names in ({"...": "A"}, {"A": "()"}, {"(1)": "A"}):
        with pytest.raises(ValueError, match=r"must have names, got .*; use resolve"):
            NS("A").rename(names)


def test_rename_takes_a_mapping() -> None:
    with pytest.raises(TypeError, match=r"names must be a mapping .*, got \[\('A', 'B'\)\]"):
        NS("A").rename([("A", "B")])  # type: ignore[arg-type]
