"""Classes that override functions of an operator of the libraries are right, or refused.

What a class of the libraries knows of its functions, such as a closed form of a power or that its
matrix is real, does not hold for a class that overrides them.
"""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    BlockDiag,
    Chain,
    Concat,
    Dense,
    Diagonal,
    Flip,
    Identity,
    NamedLinop,
    Sampling,
    Scalar,
    SplitError,
    SumReduce,
    VStack,
    Zero,
)
from linops_core._base._swapped_functions import SWAPPED
from linops_core.siblings import is_unitary
from linops_core.testing._real_matrices import conjugated, scaled
from linops_core.testing.strategies import LEAVES, Known, Spaces, trees
from linops_core.testing.strategies._known import Leaf, named
from linops_imaging import (
    NUFFT,
    ConeBeam,
    FanBeam,
    FiniteDifference,
    Gradient,
    Laplacian,
    ParallelBeam,
    ParallelBeam3D,
    SymmetrizedGradient,
    Wavelet,
    fbp,
    fdk,
    toeplitz_kernel,
)
from linops_split import batch_linop

Linop = Any  # its functions are overridden

F = 2 - 1j
REFUSALS = re.compile(
    "there is no adjoint; the class must override adjoint|the exponent of a power must not be|"
    "the operand of [*][*] must be an integer|the weight must not be|must be known to split along|"
    r"must be known or given in sizes|\(A.N [+] lam I\)\^-1 must have a closed form"
)


def with_functions(cls: Linop) -> Linop:
    class WithFunctions(cls):  # type: ignore[misc]
        @staticmethod
        def fn(linop: Linop, x: Tensor, /) -> Any:
            return F * cls.fn(linop, x)

        @staticmethod
        def adj_fn(linop: Linop, x: Tensor, /) -> Any:
            return cls.adj_fn(linop, F.conjugate() * x)

    return WithFunctions


def with_forward(cls: Linop) -> Linop:
    class WithForward(cls):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Any:
            return 2 * super().forward(x)

    return WithForward


def with_normal(cls: Linop) -> Linop:
    class WithNormal(cls):  # type: ignore[misc]
        @staticmethod
        def normal_fn(linop: Linop, x: Tensor, /) -> Any:
            return linop.adj_fn(linop, linop.fn(linop, x))

    return WithNormal


OVERRIDDEN: dict[str, tuple[Callable[[Linop], Linop], complex]] = {
    "fn": (with_functions, F),
    "forward": (with_forward, 2.0),
    "normal_fn": (with_normal, 1.0),
}
"""For each function: the subclass, and its matrix as a multiple of that of the class."""


def overridden(known: Known, what: str) -> Known:
    """Return the same operator of a subclass."""
    made, factor = OVERRIDDEN[what]
    A, matrix, where = known.linop, known.matrix, known.spaces
    if A.is_adjoint:  # the functions of its class are those of its adjoint
        A, matrix, where = A.H, matrix.mH, where.reverse
    other: Linop = copy.copy(A)
    other.__class__ = made(type(A))
    for name in SWAPPED & vars(other).keys():
        delattr(other, name)
    return replace(known, linop=other, matrix=scaled(factor, matrix), spaces=where)


def derived(known: Known) -> Iterator[tuple[str, Callable[[], NamedLinop], Tensor]]:
    """Yield all that rules make of an operator, with the matrix that it must have."""
    A, M = known.linop, known.matrix
    yield "A", lambda: A, M
    yield "H", lambda: A.H, M.mH
    yield "N", lambda: A.N, M.mH @ M
    yield "H.N", lambda: A.H.N, M @ M.mH
    yield "conj", A.conj, conjugated(M)
    yield "T", lambda: A.T, conjugated(M.mH)
    yield "2j * A", lambda: 2j * A, scaled(2j, M)
    yield "A + A", lambda: A + A, 2 * M
    yield "flatten", lambda: Chain(*A.flatten()), M
    yield "(2 * A.H).N", lambda: (2 * A.H).N, 4 * M @ M.mH
    yield "A.normal(A.H.N)", lambda: A.normal(A.H.N), M.mH @ M @ M.mH @ M
    yield "(A.H @ A).N", lambda: (A.H @ A).N, M.mH @ M @ M.mH @ M
    yield "VStack", lambda: VStack(A, A, sizes=known.spaces.sizes).N, 2 * M.mH @ M
    if A.is_endomorphism and A.ishape == A.oshape:
        one = torch.eye(len(M), dtype=M.dtype)
        yield "A @ A", lambda: A @ A, M @ M
        yield "A ** 2", lambda: A**2, M @ M
        yield "A + 1", lambda: A + Identity(A.ishape), M + one
        stack = partial(VStack, A, Identity(A.ishape), sizes=known.spaces.sizes)
        yield "VStack with 1", lambda: stack().N, M.mH @ M + one
        yield "A ** -1", lambda: A**-1, torch.linalg.pinv(M)
        yield "A ** 0.5", lambda: (A**0.5) ** 2, M
    with suppress(NotImplementedError):  # for no adjoint
        if is_unitary(A):
            yield "unitary", lambda: A.N, torch.eye(M.shape[1], dtype=M.dtype)
        for linop, matrix in ((A, M), (A.N, M.mH @ M)):
            for dim in linop.dims:
                if linop.why_opaque(dim) is None:
                    yield f"tiles of {dim}", partial(batch_linop, linop, {dim: 1}), matrix


@contextmanager
def refusals() -> Iterator[None]:
    """Let errors pass that say what is not known of a subclass, or of an operator."""
    try:
        yield
    except (NotImplementedError, ValueError, TypeError) as error:
        if not REFUSALS.search(str(error)):
            raise


def check_all(known: Known) -> None:
    """Check that all that is derived from an operator is right, or refused."""
    A, M = known.linop, known.matrix
    where = known.spaces
    for name, space in (("resolved", where.ishape), ("adjoint", where.oshape)):
        with refusals():
            known_lengths = getattr(A, name)().sizes("input")
            lengths = zip(known_lengths, where.lengths(space), strict=True)
            assert all(n in (None, wanted) for n, wanted in lengths)
    bound = 1e-8 * (1 + M.abs().sum().item()) ** 4
    for what, make, matrix in derived(known):
        with refusals():
            linop = make()
            pairs = zip(linop.ishape, linop.sizes("input"), strict=True)
            sizes = {str(d): known.spaces.sizes[d.name] if n is None else n for d, n in pairs}
            result = known.dense(linop, sizes).detach()
            assert result.shape == matrix.shape, what
            assert not result.numel() or (result - matrix).abs().max() < bound, (
                what,
                result,
                matrix,
            )
    if not M.is_complex():
        return  # linear over the reals only: solve_shifted refuses it
    x = torch.randn([known.sizes_of(A)[str(dim)] for dim in A.ishape], dtype=torch.complex128)
    with refusals():
        result = A.solve_shifted(x, 0.5).flatten()
        wanted = torch.linalg.solve(M.mH @ M + 0.5 * torch.eye(x.numel()), x.flatten())
        torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.__name__)
@settings(max_examples=settings().max_examples // 16)
@given(data=st.data())
def test_of_every_operator(leaf: Leaf, data: st.DataObject) -> None:
    known = named(data.draw(leaf()))
    for what in OVERRIDDEN:
        check_all(overridden(known, what))


@settings(max_examples=settings().max_examples // 2)
@given(trees(depth=1), st.sampled_from([*OVERRIDDEN]))
def test_of_every_composition(known: Known, what: str) -> None:
    check_all(overridden(known, what))


ANGLES = torch.tensor([0.1, 1.3, 2.9], dtype=torch.float64)
LOCS = torch.tensor([[-1.2, 0.4], [0.7, 1.9], [0.3, -0.6]], dtype=torch.float64)
ONE_IMAGE: Any = {"batch_shape": ()}
IMAGING: dict[str, Callable[[], NamedLinop]] = {
    "NUFFT": lambda: NUFFT(LOCS, (4, 4), ("K",), tol=1e-6, **ONE_IMAGE),
    "toeplitz": lambda: NUFFT(LOCS, (4, 4), ("K",), tol=1e-11, toeplitz=True, **ONE_IMAGE),
    "finufft": lambda: NUFFT(LOCS, (4, 4), ("K",), tol=1e-6, method="finufft", **ONE_IMAGE),
    "Wavelet": lambda: Wavelet("haar", ("Nx",), (4,)),
    "FiniteDifference": lambda: FiniteDifference("Nx", 4),
    "Gradient": lambda: Gradient(("Nx", "Ny"), (3, 2)),
    "SymmetrizedGradient": lambda: SymmetrizedGradient(("Nx", "Ny"), (3, 2)),
    "Laplacian": lambda: Laplacian(("Nx", "Ny"), (3, 2)),
    "ParallelBeam": lambda: ParallelBeam(ANGLES, 3, (3, 3)),
    "FanBeam": lambda: FanBeam(ANGLES, 3, (3, 3), 10.0, 5.0),
    "ConeBeam": lambda: ConeBeam(ANGLES[:1], (1, 2), (2, 2, 1), 10.0, 5.0),
    "ParallelBeam3D": lambda: ParallelBeam3D(ANGLES[:1], (1, 2), (2, 2, 1)),
}


@pytest.mark.each_value
@pytest.mark.parametrize("kind", IMAGING)
@pytest.mark.parametrize("what", OVERRIDDEN)
def test_of_every_imaging_operator(kind: str, what: str) -> None:
    A = IMAGING[kind]()
    own, there = (tuple([dim for dim in side if dim != "..."]) for side in (A.ishape, A.oshape))
    A = A.resolved(ishape=own, oshape=there)
    sizes = {"Nx": 4, "Ny": 4, "K": 3} | {str(d): n for d in A.dims if (n := A.size(d)) is not None}
    M = A.to_dense({str(d): sizes[str(d)] for d in own if A.size(d) is None}, torch.complex128)
    where = Spaces(tuple(map(str, own)), tuple(map(str, there)), sizes)
    check_all(overridden(Known(A, M, where), what))


def test_what_needs_the_class_of_the_library_refuses_a_subclass() -> None:
    line, y = ParallelBeam(ANGLES, 3, (3, 3)), torch.ones(3, 3)
    with pytest.raises(TypeError, match=r"fbp: A must be (.|\n)*; a subclass must not override"):
        fbp(y, of_subclass(line))
    with pytest.raises(TypeError, match=r"fbp: A must be one X-ray transform composed with"):
        fbp(y, of_subclass(Identity()) @ line)
    cone = ConeBeam(ANGLES, (2, 3), (3, 3, 2), 10.0, 5.0)
    with pytest.raises(TypeError, match=r"fdk: A must be (.|\n)*; a subclass must not override"):
        fdk(torch.ones(3, 2, 3), of_subclass(cone))
    with pytest.raises(TypeError, match=r"toeplitz_kernel: A must be (.|\n)*; a subclass must not"):
        toeplitz_kernel(of_subclass(NUFFT(LOCS, (4, 4), ("K",))))


def of_subclass(A: Linop) -> Any:
    A.__class__ = with_functions(type(A))
    return A


def test_a_weight_between_a_nufft_and_its_adjoint_may_be_of_a_subclass() -> None:
    A = NUFFT(LOCS, (4, 4), ("K",), tol=1e-11, toeplitz=True, **ONE_IMAGE)
    D = of_subclass(Diagonal(torch.rand(3, dtype=torch.float64), ("K",)))
    x = torch.randn(4, 4, dtype=torch.complex128)
    torch.testing.assert_close(A.normal(D)(x), A.H(D(A(x))))
    torch.testing.assert_close((D @ A).N(x), A.H(D.H(D(A(x)))))


def test_a_batch_of_images_and_a_subclass_of_nufft() -> None:
    A, B = (NUFFT(LOCS, (4, 4), ("K",), tol=1e-6) for _ in range(2))
    y = torch.randn(2, 3, dtype=torch.complex128)
    torch.testing.assert_close(of_subclass(A).H(y), F.conjugate() * B.H(y))


def test_a_class_that_overrides_functions_of_a_composition_must_override_the_adjoint() -> None:
    A = of_subclass(Chain(Scalar(2.0, ("N",)), Flip(("N",), [3])))
    with pytest.raises(NotImplementedError, match=r"override adjoint\(\), too, because Chain"):
        _ = A.H

    class Both(with_functions(Chain)):  # type: ignore[misc]
        def adjoint(self) -> NamedLinop:
            parts = [F.conjugate() / F * Scalar(1.0), *(part.H for part in reversed(self.linops))]
            return type(self)(*parts)

    B = Both(Scalar(2j, ("N",)), Flip(("N",), [3]))
    M, x = B.to_dense(), torch.randn(3, dtype=torch.complex128)
    torch.testing.assert_close(B.H.to_dense(), M.mH)
    torch.testing.assert_close(B.adj_fn(B, x), M.mH.to(x) @ x)


def test_tiles_of_a_subclass_are_of_the_subclass() -> None:
    A = Concat(*(Diagonal(torch.rand(2), ("N",)) for _ in range(3)), idim="N", odim="N")
    A.__class__ = with_forward(Concat)
    M = A.to_dense()
    for dims in ({"N": 2}, {"N": 3}):
        torch.testing.assert_close(batch_linop(A, dims).to_dense(), M)
    B = BlockDiag(*(Dense(torch.rand(2, 2)) for _ in range(3)))
    B.__class__ = with_forward(BlockDiag)
    M = B.to_dense()
    torch.testing.assert_close(batch_linop(B, {"Columns": 3, "Rows": 4}).to_dense(), M)
    S = Sampling([torch.tensor([0, 2, 2])], [3], ("K",), ("N",), ())
    S.__class__ = with_normal(Sampling)
    torch.testing.assert_close(
        batch_linop(S, {"K": 2}).N.to_dense(), S.to_dense().mH @ S.to_dense()
    )
    with pytest.raises(SplitError, match=r"N cannot be split: the samples may lie anywhere"):
        batch_linop(S.N, {"N": 2})


def test_a_forward_that_is_not_real_has_a_conjugate() -> None:
    class Turned(Scalar):
        def forward(self, x: Tensor) -> Any:
            return 1j * super().forward(x)

    assert Turned(2.0, ("N",)).conj()(torch.ones(1)).tolist() == [-2j]


def test_the_normal_of_a_unitary_operator_is_the_identity_of_the_library() -> None:
    class Own(Flip):
        def own_normal(self) -> NamedLinop:
            A: NamedLinop = of_subclass(Identity(("N",)))
            return A

    assert not is_unitary(Own(("N",), [2]))


def test_numbers_of_subclasses() -> None:
    A, x = of_subclass(Scalar(2.0, ("N",))), torch.ones(2, dtype=torch.complex128)
    for made, number in (
        (3 * A, 6 * F),
        (A @ A, 4 * F**2),
        (A**2, 4 * F**2),
        (A.N, 4 * abs(F) ** 2),
    ):
        torch.testing.assert_close(made(x), number * x)


def test_zero_and_sum_of_subclasses() -> None:
    A = of_subclass(Zero(("N",), ("N",), sizes={"N": 2}))
    A.__class__ = type("One", (Zero,), {"fn": staticmethod(lambda linop, x: x)})
    x = torch.ones(2)
    assert (A + Diagonal(x, ("N",)))(x).tolist() == [2, 2] and A.support("N") is None
    assert (Scalar(3.0) @ A)(x).tolist() == [3, 3]
    B = of_subclass(SumReduce(("N",), ()))
    with pytest.raises(ValueError, match=r"the size of N1 must be known for the adjoint"):
        B.N(x)


def test_operators_of_subclasses_compile_to_one_graph() -> None:
    S, D = Scalar(torch.tensor(3.0), ("N",)), Diagonal(torch.arange(1.0, 4.0), ("N",))
    linop = 2 * of_subclass(S) @ of_subclass(D).conj()
    x = torch.randn(3, dtype=torch.complex64)
    compiled: Linop = torch.compile(linop, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), linop(x))
