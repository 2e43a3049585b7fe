import pytest
import torch

from linops_core import Chain, Concat, Dense, Diagonal, Identity, NamedLinop, Scalar, Stack
from linops_core._algebra._add import Add
from linops_core._algebra._same_space import same_space, why_not_alike
from nameddim import ND


def diagonal(n: int) -> NamedLinop:
    return Diagonal(torch.ones(n), ("N",))


def test_wildcards_are_resolved_by_the_others() -> None:
    fitted = same_space("Add", [Scalar(2.0), Identity(("...", "B")), Identity(("A", "()"))])
    assert {(linop.ishape, linop.oshape) for linop in fitted} == {(("A", "B"), ("A", "B"))}


@pytest.mark.parametrize(
    ("linops", "error", "message"),
    [
        ([], ValueError, r"^Add: there must be at least one operator, got none"),
        ([torch.ones(1)], TypeError, r"^Add: operands must be NamedLinops, got <class 'torch"),
        (
            [diagonal(2), Scalar(1.0, ("M",))],
            ValueError,
            r"^Add: all must have one shape, got Diagonal \(N\) -> \(N\); Scalar \(M\) -> \(M\)",
        ),
        (
            [diagonal(2), diagonal(3)],
            ValueError,
            r"^Add: N must have one size, got 2 in Diagonal .* and 3 in Diagonal \(N\) -> \(N\)",
        ),
    ],
)
def test_what_is_not_between_the_same_spaces_is_refused(
    linops: list[NamedLinop], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        same_space("Add", linops)


def test_sizes_may_differ_where_it_is_said() -> None:
    assert len(same_space("Concat", [diagonal(2), diagonal(3)], frozenset({ND("N")}))) == 2


def through(n_inner: int, name: str = "K") -> NamedLinop:
    into = Dense(torch.ones(n_inner, 2), (name, "N"), ("N",), (name,))
    return Chain(into, Dense(torch.ones(3, n_inner), ("M", name), (name,), ("M",)))


def test_inner_dimensions_of_one_name_must_have_one_size_to_be_sliced() -> None:
    assert why_not_alike(Add(through(2), through(2)), "K") is None
    assert why_not_alike(Add(through(2), through(2, "L")), "K") is None
    assert "sizes ['2', '3']" in str(why_not_alike(Add(through(2), through(3)), "K"))


def test_what_the_output_says_of_an_ellipsis_must_fit_the_input_of_all() -> None:
    D = Diagonal(torch.ones(3), ("...", "N"))
    S = Stack(D, D, odim_and_idx=("S", 0))
    for make in (lambda: Add(D, S), lambda: Add(S, D), lambda: Concat(D, S, idim="N", odim="N")):
        with pytest.raises(ValueError, match=r"all must have one shape, got .*second 'S'"):
            make()
