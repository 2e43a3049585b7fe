from hypothesis import given
from hypothesis import strategies as st

from linops_core._base._unused_names import unused_names
from nameddim import ND, NamedDimension

names = st.builds(ND, st.sampled_from("NM"), st.integers(0, 6)) | st.just(ND("()"))


@given(st.sets(names), st.lists(names))
def test_each_name_is_the_next_that_is_in_no_other_place(
    used: set[NamedDimension], asked: list[NamedDimension]
) -> None:
    for dim, found in zip(asked, unused_names(asked, [*used]), strict=True):
        smaller = [dim + k for k in range(20)]
        assert found == next(each for each in smaller if each not in used)
        used.add(found)
