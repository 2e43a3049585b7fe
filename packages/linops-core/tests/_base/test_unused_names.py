from hypothesis import given
from hypothesis import strategies as st

from linops_core._base._unused_names import UnusedNames
from nameddim import ND, NamedDimension

names = st.builds(ND, st.sampled_from("NM"), st.integers(0, 6)) | st.just(ND("()"))


@given(st.sets(names), st.lists(st.tuples(names, st.sets(names, max_size=2))))
def test_each_name_is_the_next_unused_one(
    taken: set[NamedDimension], asked: list[tuple[NamedDimension, set[NamedDimension]]]
) -> None:
    unused = UnusedNames(taken)
    for dim, others in asked:
        unused.avoid(others)
        taken |= others
        found = unused.take(dim)
        assert found == dim.next_unused(taken)
        taken.add(found)


@given(st.sets(names), st.sets(names), st.lists(names), st.lists(names))
def test_joined_names_are_used_in_either(
    some: set[NamedDimension],
    others: set[NamedDimension],
    asked_before: list[NamedDimension],
    asked: list[NamedDimension],
) -> None:
    one, other = UnusedNames(some), UnusedNames(others)
    some |= {*one.each(asked_before)}
    assert one & other == some & others
    taken, joined = some | others, one.joined(other)
    assert joined in (one, other)
    for dim in asked:
        found = joined.take(dim)
        assert found == dim.next_unused(taken)
        taken.add(found)
