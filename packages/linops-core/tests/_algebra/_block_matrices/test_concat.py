from typing import Any

import pytest
import torch

from linops_core import (
    Add,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Role,
    Scalar,
    Zero,
)
from linops_core._algebra._block_matrices._side_by_side import SideBySide
from nameddim import ND


def diagonal(*weights: float) -> Diagonal:
    return Diagonal(torch.tensor(weights), ("N",))


def matrix(n_rows: int, n_columns: int, oname: str = "M", iname: str = "N") -> Dense:
    return Dense(torch.ones(n_rows, n_columns), (oname, iname), (iname,), (oname,))


def test_the_three_ways_to_stand_side_by_side() -> None:
    column = Concat(matrix(1, 2), matrix(2, 2), odim="M")
    assert column.to_dense().real.tolist() == [[1, 1], [1, 1], [1, 1]]
    row = Concat(matrix(1, 2), matrix(1, 1), idim="N")
    assert row.to_dense().real.tolist() == [[1, 1, 1]]
    both = Concat(matrix(1, 2), matrix(1, 1), idim="N", odim="M")
    assert both.to_dense().real.tolist() == [[1, 1, 0], [0, 0, 1]]


def test_the_size_of_the_whole_is_the_sum_of_the_blocks() -> None:
    A = Concat(matrix(1, 2), matrix(2, 2), odim="M")
    assert (A.size("M"), A.size("N"), A.size("Q")) == (3, 2, None)


def test_dtypes_of_blocks_promote_with_and_without_gradients() -> None:
    A = Concat(diagonal(1.0), Diagonal(torch.tensor([2j]), ("N",)), idim="N", odim="N")
    x = torch.ones(2)
    assert A(x).tolist() == [1.0, 2j]
    assert A(x.requires_grad_()).tolist() == [1.0, 2j]


def test_a_divided_dimension_behind_an_ellipsis_counts_from_the_end() -> None:
    blocks = [Diagonal(torch.full((2,), w), ("...", "N")) for w in (2.0, 3.0)]
    A = Concat(*blocks, idim="N", odim="N")
    assert A(torch.ones(5, 4))[4].tolist() == [2, 2, 3, 3]
    named = A.resolved(ishape=(ND("B"), ND("N")))
    assert isinstance(named, Concat) and named.ishape == ("B", "N")
    assert (str(named.idim), str(named.odim)) == ("N", "N")
    assert named(torch.ones(5, 4)).shape == (5, 4)
    assert A.resolved() is A


def test_lengths_are_given_where_blocks_do_not_know_them() -> None:
    A = Concat(
        Scalar(2.0, ("N",)), Scalar(3.0, ("N",)), idim="N", odim="N", isizes=[1, 2], osizes=[1, 2]
    )
    assert A(torch.ones(3)).tolist() == [2, 3, 3]


@pytest.mark.parametrize(
    ("linops", "keywords", "message"),
    [
        ([diagonal(1.0)], {}, r"Concat: idim, odim or both must be given, got neither"),
        ([matrix(1, 2)], {"idim": "Q"}, r"Concat: idim must be one of \(N\) -> \(M\), got Q"),
        ([matrix(1, 2)], {"odim": "N"}, r"Concat: odim must be one of \(N\) -> \(M\), got N"),
        ([diagonal(1.0)], {"idim": "N"}, r"N is in the input and in the output .* must be both"),
        (
            [Scalar(2.0, ("N",))],
            {"idim": "N", "odim": "N"},
            r"the size of N must be known in every operand; give isizes",
        ),
        (
            [matrix(1, 2)],
            {"odim": "M", "osizes": [1, 1]},
            r"the size of M must be known .* one for each of 1 operands; got \[1, 1\]",
        ),
        (
            [matrix(1, 2)],
            {"odim": "M", "osizes": [2]},
            r"M must have size 2 in Dense \(\(N\) -> \(M\).*\), got 1",
        ),
        (
            [Scalar(2.0, ("N",)), Scalar(2.0, ("N",))],
            {"idim": "N", "odim": "N", "isizes": [1, 2], "osizes": [2, 1]},
            r"must be both idim and odim with the same blocks, got idim=N \(1, 2\), odim=N",
        ),
        ([matrix(1, 2), matrix(1, 3)], {"odim": "M"}, r"Concat: N must have one size, got 2"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused(
    linops: list[NamedLinop], keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Concat(*linops, **keywords)


def test_an_input_of_another_length_is_refused() -> None:
    A = Concat(diagonal(1.0), diagonal(2.0), idim="N", odim="N")
    with pytest.raises(ValueError, match=r"Concat: N must have size 2, got 3 in an input of"):
        A(torch.ones(3))


def test_a_block_that_breaks_its_word_is_refused() -> None:
    A = Concat(
        Scalar(1.0, ("N",)), Scalar(2.0, ("N",)), idim="N", odim="N", isizes=[1, 1], osizes=[1, 1]
    )
    other = Concat(diagonal(1.0, 1.0), diagonal(1.0), idim="N", odim="N")
    A._blocks["output"] = other._blocks["output"]
    with pytest.raises(ValueError, match=r"Concat: an operand must return size 2 along axis 0"):
        A(torch.ones(2))


def test_a_tile_holds_the_blocks_that_it_touches() -> None:
    A = Concat(diagonal(1.0, 2.0), diagonal(3.0), diagonal(4.0, 5.0), idim="N", odim="N")
    within = A.split(A, {ND("N"): slice(1, 2)})
    assert isinstance(within, Diagonal)
    across = A.split(A, {ND("N"): slice(1, 4)})
    assert isinstance(across, Concat) and len(across.linops) == 3
    assert across(torch.ones(3)).tolist() == [2, 3, 4]
    assert across.H(torch.ones(3)).tolist() == [2, 3, 4]
    assert A.split(A, {ND("N"): slice(None)}) is A


def test_the_normal_of_a_column_runs_inside_of_the_blocks() -> None:
    A = Concat(matrix(1, 2), matrix(2, 2), odim="M")
    assert type(A.N).__name__ == "Add" and "Concat" not in repr(A.N)
    diagonal_blocks = Concat(diagonal(1.0), diagonal(2.0), idim="N", odim="N")
    blocks = diagonal_blocks.N.children()
    assert [block.name for block in blocks] == ["Diagonal.N", "Diagonal.N"]
    row = Concat(matrix(1, 2), matrix(1, 1), idim="N")
    assert type(row.N).__name__ == "Chain"
    mixed = Concat(matrix(1, 2), Zero(("N",), ("M",), sizes={"N": 2, "M": 1}), odim="M")
    assert type(mixed.N).__name__ == "Add"
    torch.testing.assert_close(mixed.N.to_dense(), mixed.to_dense().mH @ mixed.to_dense())


def test_a_block_diagonal_is_cut_along_either_of_two_names() -> None:
    A = Concat(matrix(1, 2), matrix(3, 1), matrix(2, 2), idim="N", odim="M")
    whole = A.to_dense()
    assert (A.role("N"), A.role("M")) == (Role.INPUT, Role.OUTPUT)
    N, M = ND.infer(("N", "M"))
    for columns in (slice(start, stop) for start in range(5) for stop in range(start + 1, 6)):
        torch.testing.assert_close(
            A.split(A, {N: columns}).to_dense(), whole[:, columns], check_dtype=False
        )
        for rows in (slice(start, stop) for start in range(6) for stop in range(start + 1, 7)):
            part = A.split(A, {N: columns, M: rows})
            torch.testing.assert_close(part.to_dense(), whole[rows, columns], check_dtype=False)
            torch.testing.assert_close(
                part.H.to_dense(), whole[rows, columns].mH, check_dtype=False
            )
    for rows in (slice(start, stop) for start in range(6) for stop in range(start + 1, 7)):
        torch.testing.assert_close(A.split(A, {M: rows}).to_dense(), whole[rows], check_dtype=False)


def test_a_part_of_a_block_diagonal_reads_the_blocks_that_it_is_about() -> None:
    A = Concat(matrix(1, 2), matrix(3, 1), matrix(2, 2), idim="N", odim="M")
    part = A.split(A, {ND.infer("M"): slice(2, 5)})
    assert part.support("N") == slice(2, 5) and part.support("M") is None
    assert isinstance(part, SideBySide)
    assert len(part.linops) == 3  # what is zero before, and two blocks


def test_blocks_of_no_length_are_cut_with_the_others() -> None:
    empty = Dense(torch.ones(0, 2), ("M", "N"))
    A = Concat(empty, matrix(2, 2), empty, matrix(1, 1), idim="N", odim="M")
    whole = A.to_dense()
    for piece in (slice(0, 1), slice(1, 3), slice(2, 3)):
        part = A.split(A, {ND.infer("M"): piece})
        torch.testing.assert_close(part.to_dense(), whole[piece])


def test_inner_dimensions_of_different_sizes_cannot_be_sliced() -> None:
    blocks = [Chain(matrix(n, 2, "K"), matrix(1, n, "M", "K")) for n in (2, 3)]
    A = Concat(*blocks, odim="M")
    assert A.role("K") is Role.OPAQUE
    assert "sizes ['2', '3']" in str(A.why_opaque("K"))


def test_a_block_without_the_inner_dimension_is_zero_in_all_tiles_but_the_first() -> None:
    through = Chain(matrix(2, 3, "K"), matrix(1, 2, "M", "K"))
    rename = Identity(("N",), ("M",))
    A = Concat(through, rename, odim="M", osizes=[1, 3])
    assert A.role("K") is Role.INNER
    tiles = [A.split(A, {ND("K"): slice(k, k + 1)}) for k in range(2)]
    assert isinstance(tiles[1], Concat) and isinstance(tiles[1].linops[1], Zero)
    assert torch.equal(tiles[0].to_dense() + tiles[1].to_dense(), A.to_dense())
    adjoints = tiles[0].H.to_dense({"M": 4}) + tiles[1].H.to_dense({"M": 4})
    assert torch.equal(adjoints, A.to_dense().mH)


def test_normals_keep_the_threads() -> None:
    threads: dict[str, Any] = {"threaded": True, "num_workers": 2}
    column = Concat(matrix(1, 2), matrix(2, 2), odim="M", **threads)
    blocks = Concat(diagonal(1.0), diagonal(2.0), idim="N", odim="N", **threads)
    for linop in (column.N, blocks.N):
        assert isinstance(linop, (Add, Concat))
        assert (linop.threaded, linop.num_workers) == (True, 2)
    with pytest.raises(ValueError, match=r"^Concat: num_workers must be a positive integer, got 0"):
        Concat(matrix(1, 2), odim="M", num_workers=0)


def test_blocks_on_threads_are_the_same_bits() -> None:
    blocks = [matrix(1, 2), matrix(2, 2)]
    x = torch.randn(2)
    for serial, threaded in (
        (Concat(*blocks, odim="M"), Concat(*blocks, odim="M", threaded=True, num_workers=2)),
        (Add(*blocks[:1] * 3), Add(*blocks[:1] * 3, threaded=True, num_workers=2)),
    ):
        assert torch.equal(serial(x), threaded(x))
        y = serial(x)
        assert torch.equal(serial.H(y), threaded.H(y))
