import numpy as np
import pytest
import torch

from linops_core import SplitError
from linops_core._adapters._external_operator import ExternalOperator
from linops_core._adapters._scipy import stored_matrix
from nameddim import ND

Names = tuple[str, ...]
MATRIX = np.arange(6.0).reshape(2, 3)


def linop(
    ishape: Names = ("...", "N"),
    oshape: Names = ("...", "M"),
    lengths: tuple[tuple[int, ...], tuple[int, ...]] = ((3,), (2,)),
) -> ExternalOperator:
    return ExternalOperator(stored_matrix(MATRIX), ishape, oshape, lengths, "A")


def test_a_batch_of_any_number_of_dimensions_goes_through() -> None:
    x = torch.randn(4, 1, 3, dtype=torch.float64)
    y = x @ torch.from_numpy(MATRIX).mT
    torch.testing.assert_close(linop()(x), y)
    torch.testing.assert_close(linop()(x[0, 0]), y[0, 0])
    assert linop()(x[:0]).shape == (0, 1, 2)


def test_a_batch_is_cut_and_the_matrix_is_not() -> None:
    A = linop().resolved(ND.infer(("B", "N")))
    assert A.split(A, {ND("B"): slice(0, 1)}) is A
    with pytest.raises(SplitError, match=r"N cannot be split: an operator of SciPy cannot be cut"):
        A.split(A, {ND("N"): slice(0, 1)})


def test_names_may_change() -> None:
    A = linop(("N",), ("M",))
    assert A.N.ishape == ("N",)
    assert A.N.oshape == ("N1",)
    assert A.N(torch.ones(3)).tolist() == [36, 51, 66]


@pytest.mark.parametrize(
    ("ishape", "oshape"),
    [
        (("...", "N"), ("M",)),
        (("N",), ("...", "M")),
        (("N", "..."), ("M", "...")),
        (("()",), ("M",)),
    ],
)
def test_an_ellipsis_is_at_both_fronts_and_names_are_names(ishape: Names, oshape: Names) -> None:
    with pytest.raises(ValueError, match=r"A: a \.\.\. must be at the front of both shapes or now"):
        linop(ishape, oshape)


def test_there_is_a_size_for_each_name() -> None:
    with pytest.raises(ValueError, match=r"A: there must be one name for each of the sizes \(3,\)"):
        linop(("...", "N", "K"))


def test_a_name_has_one_size() -> None:
    with pytest.raises(ValueError, match=r"A: N must have one size, got 3 and 2 in"):
        linop(oshape=("...", "N"))


def test_the_sizes_make_up_the_matrix() -> None:
    with pytest.raises(
        ValueError, match=r"make up a matrix of shape \(2, 3\), got \(2,\) x \(4,\)"
    ):
        linop(lengths=((4,), (2,)))


def test_it_works_on_the_cpu_alone() -> None:
    class Elsewhere(torch.Tensor):
        device = torch.device("cuda:1")

    x = torch.ones(3).as_subclass(Elsewhere)
    with pytest.raises(ValueError, match=r"A: the input must be on the CPU, where SciPy computes"):
        linop().call(x, "columns", "rows")
    assert linop()(torch.ones(3, device="meta")).device.type == "meta"
