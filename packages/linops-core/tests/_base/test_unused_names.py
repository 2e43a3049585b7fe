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
