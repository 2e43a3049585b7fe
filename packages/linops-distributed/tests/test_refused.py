"""What cannot be distributed, or is not alike on all ranks, is refused in words that say it."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from linops_core import FFT, Dense, Diagonal, NamedLinop, Roll, Scalar, SplitError, Stack
from linops_distributed import DistributedLinop, distribute_linop
from linops_distributed.testing import Ranked
from linops_multigpu import BatchSpec

Made = Callable[[DeviceMesh], object]


def errors(ranks: Ranked, program: Callable[[int], object]) -> list[BaseException]:
    """Return the error on each rank, of which there must be one."""
    result = sorted(ranks.attempt(program), key=lambda pair: pair[0])
    assert all(isinstance(error, BaseException) for _, error in result), result
    return [error for _, error in result if isinstance(error, BaseException)]


def diagonal(n: int = 4) -> Diagonal:
    return Diagonal(torch.arange(1.0, n + 1), ("N",))


@pytest.mark.parametrize(
    ("made", "error", "match"),
    [
        (lambda m: distribute_linop(3, m, {"N": "r"}), TypeError, "linop must be a NamedLinop"),  # type: ignore[arg-type]
        (lambda m: distribute_linop(diagonal(), 3, {"N": "r"}), TypeError, "must be a DeviceMesh"),  # type: ignore[arg-type]
        (
            lambda m: distribute_linop(diagonal(), DeviceMesh("cpu", m.mesh), {"N": "r"}),
            ValueError,
            "must have names",
        ),
        (
            lambda m: distribute_linop(
                diagonal(),
                DeviceMesh("cpu", [1, 0], mesh_dim_names=("r",), _init_backend=False),
                {"N": "r"},
            ),
            ValueError,
            r"ranks must ascend along each dimension of the mesh, .* got \[1, 0\]",
        ),
        (
            lambda m: distribute_linop(
                diagonal(),
                DeviceMesh("cpu", [7], mesh_dim_names=("r",), _init_backend=False),
                {"N": "r"},
            ),
            ValueError,
            "this rank must be in the mesh, got",
        ),
        (lambda m: distribute_linop(diagonal(), m, ["N"]), TypeError, "placement must be a map"),  # type: ignore[arg-type]
        (
            lambda m: distribute_linop(diagonal(), m, {"N": "q"}),
            ValueError,
            r"N must be placed on one of the dimensions \('r',\) of the mesh, got 'q'",
        ),
        (
            lambda m: distribute_linop(
                Dense(torch.ones(2, 3), ("M", "N"), ("N",), ("M", "N")), m, {"M": "r", "N": "r"}
            ),
            ValueError,
            "its own dimension of the mesh, got {'M': 'r', 'N': 'r'}",
        ),
        (
            lambda m: distribute_linop(diagonal(), m, {"N": "r"}, batch_specs=3),  # type: ignore[arg-type]
            TypeError,
            "batch_specs must be BatchSpecs",
        ),
        (
            lambda m: distribute_linop(FFT(1), m, {"Nx": "r"}, sizes={"Nx": 4}),
            SplitError,
            "Nx cannot be split",
        ),
        (
            lambda m: distribute_linop(diagonal(), m, {"K": "r"}),
            SplitError,
            "must be one of",
        ),
        (
            lambda m: distribute_linop(FFT(1, batch_shape=("C",)), m, {"C": "r"}),
            SplitError,
            "the size of C must be known",
        ),
        (
            lambda m: distribute_linop(diagonal(), m, {"N": "r"}, sizes={"N": 5}),
            SplitError,
            "N must have size 4, got 5",
        ),
    ],
)
def test_on_all_ranks_with_the_same_words_before_any_sends(
    two: Ranked, made: Made, error: type[Exception], match: str
) -> None:
    two.run(lambda rank: two.mesh(r=2))
    said = []
    for alone in range(2):  # while the other rank does nothing

        def program(rank: int, alone: int = alone) -> None:
            mesh = two.mesh(r=2)
            if rank == alone:
                with pytest.raises(error, match=match) as caught:
                    made(mesh)
                said.append(str(caught.value))

        two.run(program)
    assert said[0] == said[1]


def test_a_whole_input_of_another_length(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = distribute_linop(diagonal(), two.mesh(r=2), {"N": "r"})
        with pytest.raises(ValueError, match=r"local_input: axis -?\d of a whole .* length 4, got"):
            A.local_input(torch.ones(5))

    two.run(program)


@pytest.mark.parametrize(
    "other",
    [
        lambda: Diagonal(torch.ones(4, dtype=torch.float64), ("N",)),
        lambda: diagonal(5),
        lambda: FFT(1, batch_shape=("N",)) @ Diagonal(torch.ones(4, 3), ("N", "Nx")),
    ],
)
def test_another_operator_on_one_rank(two: Ranked, other: Callable[[], NamedLinop]) -> None:
    def program(rank: int) -> None:
        distribute_linop(diagonal() if rank else other(), two.mesh(r=2), {"N": "r"})

    for error in errors(two, program):
        assert "must be the same on all ranks, got" in str(error)
        assert "on rank 0" in str(error) and "on rank 1" in str(error)


@pytest.mark.parametrize("what", ["placement", "ordered", "option", "number", "axis"])
def test_other_arguments_on_one_rank(two: Ranked, what: str) -> None:
    def program(rank: int) -> None:
        A: NamedLinop = Dense(torch.ones(4, 4), ("M", "N"), ("N",), ("M",))
        if what == "option":
            A = FFT(1, batch_shape=("N",), norm="ortho" if rank else "backward")
        elif what == "number":
            A = Scalar(2j if rank else 1j, ("N",))
        elif what == "axis":
            A = Roll(("Nx",), (1 + rank,), {"Nx": 4}, shape=("N", "Nx"))
        dim = ("M" if rank else "N") if what == "placement" else "N"
        ordered = what == "ordered" and rank == 1
        distribute_linop(A, two.mesh(r=2), {dim: "r"}, ordered=ordered, sizes={"N": 4})

    for error in errors(two, program):
        assert "operator and placement must be the same on all ranks" in str(error)


@pytest.mark.parametrize("what", ["dtype", "shape", "gradient"])
def test_other_inputs_on_one_rank(two: Ranked, what: str) -> None:
    def program(rank: int) -> None:
        A = distribute_linop(
            FFT(1, batch_shape=("B", "N")), two.mesh(r=2), {"N": "r"}, sizes={"N": 4}
        )
        dtype = torch.float64 if what == "dtype" and rank else torch.complex64
        x = torch.ones(1 + (what == "shape" and rank), 2, 3, dtype=dtype)
        A(x.requires_grad_(what == "gradient" and bool(rank)))

    for error in errors(two, program):
        assert "input must be the same on all ranks, got" in str(error)


def test_another_shape_of_results_on_one_rank(two: Ranked) -> None:
    class Odd(Diagonal):
        @staticmethod
        def fn(linop: Any, x: Tensor, /, out: Tensor | None = None) -> Tensor:
            return Diagonal.fn(linop, x)[(None,) * dist.get_rank()]

    def program(rank: int) -> None:
        A = Odd(torch.ones(4), ("...", "N"), weight_shape=("N",))
        distribute_linop(A, two.mesh(r=2), {"N": "r"})(torch.ones(2))

    for error in errors(two, program):
        assert "shape of the sum of the output must be the same on all ranks" in str(error)


@pytest.mark.parametrize("cut", ["L", "Q"])
def test_batch_specs_that_do_not_fit_the_share_of_one_rank(two: Ranked, cut: str) -> None:
    inside = Dense(torch.ones(3, 2), ("M", "L")) @ Dense(torch.ones(2, 4), ("L", "N"))
    A = Stack(inside, Dense(torch.ones(3, 4)), odim_and_idx=("K", 0))

    def program(rank: int) -> None:
        distribute_linop(A, two.mesh(r=2), {"K": "r"}, batch_specs=BatchSpec({cut: 1}))

    first, second = errors(two, program)
    assert isinstance(first, SplitError) and isinstance(second, SplitError)
    assert str(first) == str(second)
    assert "batch_specs must cut the share of each rank, got on rank" in str(first) and cut in str(
        first
    )


def test_an_error_in_a_part_is_one_on_all_ranks(two: Ranked) -> None:
    class Fails(Diagonal):
        @staticmethod
        def fn(linop: Any, x: Tensor, /, out: Tensor | None = None) -> Tensor:
            if dist.get_rank():
                raise KeyError("planted")
            return Diagonal.fn(linop, x)

    def program(rank: int) -> None:
        distribute_linop(Fails(torch.ones(4), ("N",)), two.mesh(r=2), {"N": "r"})(torch.ones(2))

    first, second = errors(two, program)
    assert isinstance(second, KeyError)
    assert "must succeed on all ranks, got an error on rank 1: KeyError: 'planted'" in str(first)


def summed(two: Ranked, n_rows: int = 4) -> DistributedLinop:
    """An operator whose output is summed."""
    A = Dense(torch.ones(n_rows, 4), ("M", "N"), ("N",), ("M",))
    return distribute_linop(A, two.mesh(r=2), {"N": "r"})


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "length": (lambda: torch.ones(3), "got"),
    "number of dimensions": (lambda: torch.ones(2, 1), "must have 1 dimensions"),
    "type": (lambda: [1.0, 1.0], "must be a torch.Tensor"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("derived", ["", "H", "N"])
def test_a_wrong_input_on_one_rank_is_an_error_on_both(
    two: Ranked, wrong: str, derived: str
) -> None:
    def program(rank: int) -> None:
        A: Any = made_by(two) if derived == "H" else summed(two)
        A = getattr(A, derived, A)
        A(WRONG[wrong][0]() if rank else torch.ones(2))

    first, second = errors(two, program)
    assert str(first) == str(second)
    assert isinstance(first, ValueError)
    assert "on rank 1: " in str(first)
    assert WRONG[wrong][1] in str(first)


# The mark of a step rides with the smaller one, and goes before the larger one.
@pytest.mark.parametrize("n_rows", [3, 2**18 + 1])
@pytest.mark.parametrize("wrong", [*WRONG, "dtype", "gradient"])
def test_a_wrong_input_on_one_rank_in_a_later_call(two: Ranked, wrong: str, n_rows: int) -> None:
    """At once, not when the others have waited for long enough."""

    def program(rank: int) -> None:
        A, x = summed(two, n_rows), torch.ones(2)
        A(x), A(x.double()), A(x)
        if rank and wrong == "dtype":
            x = torch.ones(2, dtype=torch.complex64)
        elif rank and wrong == "gradient":
            x.requires_grad_()
        elif rank:
            x = WRONG[wrong][0]()
        A(x)

    first, second = errors(two, program)
    assert str(first) == str(second)
    assert "got the sum of the output" in str(first)
    assert "a call with another input than before" in str(first)
    assert WRONG[wrong][1] in str(first) if wrong in WRONG else "(" in str(first)


def test_the_same_wrong_input_on_all_ranks(two: Ranked) -> None:
    """In a first call and in a later one; the ranks can go on."""

    def program(rank: int) -> None:
        A = summed(two)
        for _ in range(2):
            with pytest.raises(ValueError, match="N must have size 2, got 3") as caught:
                A(torch.ones(3))
            assert "on rank" not in str(caught.value)
            torch.testing.assert_close(A(torch.ones(2)), torch.full((4,), 4.0))

    two.run(program)


def test_a_wrong_share_for_full_output_on_one_rank(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = made_by(two)
        A.full_output(torch.ones(2))
        A.full_output(torch.ones(2 + rank))

    first, second = errors(two, program)
    assert "calls must be the same on all ranks, got full_output" in str(first)
    assert "length 2, got shape (3,)" in str(first)
    assert str(first) == str(second)


@pytest.mark.parametrize("n_rows", [3, 2**18 + 1])
def test_an_error_in_a_part_in_a_later_call(two: Ranked, n_rows: int) -> None:
    class Fails(Dense):
        @staticmethod
        def fn(linop: Any, x: Tensor, /, **options: Any) -> Tensor:
            if dist.get_rank() and float(x[0]) == 3:
                raise KeyError("planted")
            return Dense.fn(linop, x, **options)

    def program(rank: int) -> None:
        linop = Fails(torch.ones(n_rows, 4), ("M", "N"), ("N",), ("M",))
        A = distribute_linop(linop, two.mesh(r=2), {"N": "r"})
        A(torch.ones(2))
        A(3 * torch.ones(2))

    first, second = errors(two, program)
    assert isinstance(second, KeyError)
    assert "which failed with KeyError: 'planted'" in str(first)
    assert "on rank 1" in str(first)


@pytest.mark.parametrize("cut", ["M", "N"])
def test_an_error_in_a_backward_pass(two: Ranked, cut: str) -> None:
    """The other rank waits for the gradient of the input, or for that of the weight."""
    fails = False

    class Fails(Dense):
        @staticmethod
        def fn(linop: Any, x: Tensor, /, **options: Any) -> Tensor:
            if dist.get_rank() and fails:
                raise KeyError("planted")
            return Dense.fn(linop, x, **options)

    weight = torch.ones(4, 4, requires_grad=True)

    def program(rank: int) -> None:
        nonlocal fails
        A = distribute_linop(Fails(weight, ("M", "N"), ("N",), ("M",)), two.mesh(r=2), {cut: "r"})
        x = A.local_input(torch.ones(4)).clone().requires_grad_()
        A(x).sum().backward()
        y = A(x).sum()
        dist.barrier()
        fails = True
        y.backward()

    first, second = errors(two, program)
    assert isinstance(second, KeyError)
    what = {"M": "the gradient of the input", "N": "the gradient of weight (4, 4)"}[cut]
    assert what in str(first)
    assert "which failed with KeyError: 'planted'" in str(first)


def made_by(two: Ranked) -> DistributedLinop:
    return distribute_linop(diagonal(), two.mesh(r=2), {"N": "r"})


@pytest.mark.parametrize(
    ("use", "error", "match"),
    [
        (lambda A: A.local_input(torch.ones(5)), ValueError, "local_input: axis 0 .* length 4"),
        (lambda A: A.local_output(torch.ones(())), ValueError, "local_output: axis 0 .* length 4"),
        (lambda A: A.full_output(torch.ones(4)), ValueError, "full_output: axis 0 .* length 2"),
        (lambda A: A(torch.ones(4)), ValueError, "N must have size 2, got 4"),
        (lambda A: A.split(A, {"N": slice(0, 1)}), SplitError, "distributed over ranks"),
        (lambda A: torch.vmap(A)(torch.ones(3, 2)), NotImplementedError, "over ranks it must be"),
        (lambda A: A.to_dense(), NotImplementedError, "vectors must be whole for to_dense"),
        (lambda A: (2 * A.N).to_scipy(), NotImplementedError, "must be whole for to_scipy"),
        (pickle.dumps, TypeError, "must stay in their process"),
    ],
)
def test_use_that_is_refused(
    two: Ranked, use: Callable[[Any], object], error: type[Exception], match: str
) -> None:
    def program(rank: int) -> None:
        with pytest.raises(error, match=match):
            use(made_by(two))

    two.run(program)


def test_second_derivatives_are_refused(two: Ranked) -> None:
    def program(rank: int) -> None:
        x = torch.ones(2, requires_grad=True)
        y = made_by(two)(x).square().sum()
        with pytest.raises(NotImplementedError, match="first derivatives"):
            torch.autograd.grad(y, x, create_graph=True)

    two.run(program)


def test_weights_with_gaps_are_not_trained(two: Ranked) -> None:
    repeated = torch.ones(1, requires_grad=True).expand(4)
    real_part = torch.nn.Parameter(torch.ones(4, dtype=torch.complex64).real)

    def program(rank: int) -> None:
        A = Diagonal(repeated, ("N",))
        B = Diagonal(real_part, ("C", "N"), weight_shape=("N",))  # whole on each rank with work
        for linop, dim, size in ((A, "N", 4), (B, "C", 1)):
            D = distribute_linop(linop, two.mesh(r=2), {dim: "r"}, sizes={dim: size})
            x = D.local_input(torch.ones(4) if dim == "N" else torch.ones(1, 4))
            with pytest.raises(NotImplementedError, match="must be dense tensors"):
                D(x)

    two.run(program)


def test_wildcards_that_differ_where_ranks_have_no_work(two: Ranked) -> None:
    class Reverse(Diagonal):
        """It takes the second dimension, which has no name, for another one in the output."""

        def linked_positions(self) -> list[tuple[int, int]]:
            return [(0, 0)]

    def program(rank: int) -> None:
        A = Reverse(torch.ones(1, 1), ("C", "()"))
        distribute_linop(A, two.mesh(r=2), {"C": "r"})

    first, second = errors(two, program)
    assert "each rank must have work" in str(first)
    assert str(first) == str(second)


def test_a_copy_has_the_same_connections(two: Ranked) -> None:
    def program(rank: int) -> None:
        A = copy.deepcopy(made_by(two))
        torch.testing.assert_close(A.full_output(A(torch.ones(2))), torch.arange(1.0, 5))

    two.run(program)


def calls_in_another_order(ranks: Ranked, n_rows: int, ordered: bool, rank: int) -> None:
    """Two operators whose sums have the same length, after both have been called in order."""
    weights = torch.ones(n_rows, 4), 2 * torch.ones(n_rows, 4)
    A, B = (
        distribute_linop(
            Dense(weight, ("M", "N"), ("N",), ("M",)), ranks.mesh(r=4), {"N": "r"}, ordered=ordered
        )
        for weight in weights
    )
    x = torch.ones(1)
    for linop in (A, B):
        linop(x)
    for linop in (B, A) if rank == 2 else (A, B):
        linop(x)


# The mark of a step rides with the smaller one, and goes before the larger one.
@pytest.mark.parametrize("n_rows", [3, 2**18 + 1])
@pytest.mark.parametrize("ordered", [False, True])
def test_calls_in_another_order_on_one_rank(four: Ranked, n_rows: int, ordered: bool) -> None:
    for error in errors(four, lambda rank: calls_in_another_order(four, n_rows, ordered, rank)):
        assert "calls must be the same on all ranks, got the sum of the output of" in str(error)
        assert "on rank 0, 1, 3" in str(error) and "on rank 2" in str(error)


def test_an_adjoint_in_the_place_of_an_operator_with_the_same_names(two: Ranked) -> None:
    def program(rank: int) -> None:
        weight = torch.arange(4.0).reshape(2, 2)
        inner = Dense(weight, ("N", "L"), ("L",), ("N",)) @ Dense(
            weight, ("L", "N"), ("N",), ("L",)
        )
        A = distribute_linop(inner, two.mesh(r=2), {"L": "r"})
        x = torch.ones(2)
        A(x), A.H(x), A.conj()(x), A.N(x)
        (A.H if rank else A)(x)

    for error in errors(two, program):
        assert "calls must be the same on all ranks" in str(error)


def test_a_first_call_in_the_place_of_another(two: Ranked) -> None:
    def program(rank: int) -> None:
        A, B = made_by(two), made_by(two)
        (B if rank else A)(torch.ones(2))

    for error in errors(two, program):
        assert "calls must be the same on all ranks, got dtype, shape and gradient" in str(error)
