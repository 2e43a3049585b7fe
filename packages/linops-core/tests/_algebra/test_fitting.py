"""Neighbours find their dimensions in each other by name, or the error says what to write."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import (
    FFT,
    Convolution,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Role,
    Sampling,
    Scalar,
    SimpleLinop,
)

SIZES = {"C": 2, "X": 3, "Y": 2, "Z": 2}


def random(*dims: str) -> torch.Tensor:
    return torch.randn([SIZES[dim] for dim in dims], dtype=torch.complex128)


@st.composite
def pairs(draw: st.DrawFn, names: tuple[str, ...], depth: int = 1) -> tuple[NamedLinop, NamedLinop]:
    """Draw an operator that leaves names out or permutes them, and what it means on ``names``."""
    torch.manual_seed(draw(st.integers(0, 99)))
    dims = tuple(draw(st.permutations(names))[: draw(st.integers(1, 2))])
    in_order = tuple(name for name in names if name in dims)
    kind = draw(st.integers(0, 7 if depth else 5))
    if kind == 0:
        w = random(*in_order)
        shape = ("...", *in_order) if draw(st.booleans()) else in_order
        return Diagonal(w, shape), Diagonal.from_weight(w, in_order, names)
    if kind == 1:
        return Scalar(2j, in_order), Scalar(2j, names)
    if kind == 2:
        return Identity(in_order), Identity(names)
    if kind == 3:
        kernel = torch.randn([2] * len(dims), dtype=torch.complex128)
        return Convolution(kernel, dims=dims), Convolution(kernel, dims=dims, shape=names)
    if kind == 4:
        centered = draw(st.booleans())
        return FFT(dims=dims, centered=centered), FFT(dims=dims, shape=names, centered=centered)
    if kind == 5:
        w = random(*in_order)
        D = Diagonal(w, in_order)
        return D.N.conj(), Diagonal.from_weight(w.abs() ** 2, in_order, names)
    (A, whole_A), (B, whole_B) = (draw(pairs(names, depth - 1)) for _ in range(2))
    anchor = Diagonal(random(*names), names)
    if kind == 6:
        return (A @ anchor) @ B, whole_A @ anchor @ whole_B
    return A + anchor + B, whole_A + anchor + whole_B


@given(st.data())
def test_compositions_by_name_are_those_of_the_whole_operators(data: st.DataObject) -> None:
    names = tuple(data.draw(st.permutations(list(SIZES))))
    parts = [data.draw(pairs(names)) for _ in range(data.draw(st.integers(1, 3)))]
    anchor = Diagonal(random(*names), names)
    at = data.draw(st.integers(0, len(parts)))
    parts.insert(at, (anchor, anchor))
    # From the anchor outwards, in any order of the two sides.
    A: NamedLinop = anchor
    whole: NamedLinop = anchor
    before, after = parts[:at][::-1], parts[at + 1 :]
    while before or after:
        if before and (not after or data.draw(st.booleans())):
            part = before.pop(0)
            A, whole = A @ part[0], whole @ part[1]
        else:
            part = after.pop(0)
            A, whole = part[0] @ A, part[1] @ whole
    assert (A.ishape, A.oshape) == (names, names)
    x = random(*names)
    expected, back = whole(x), whole.H(x)
    torch.testing.assert_close(A(x), expected)
    torch.testing.assert_close(A.H(x), back)
    torch.testing.assert_close(A.N(x), whole.H(expected))
    torch.testing.assert_close(A.T(x), whole.T(x))
    for dim in names:
        assert A.role(dim) == whole.role(dim)
        if A.role(dim) is not Role.OPAQUE:
            tiles = [A.split(A, {dim: slice(n, n + 1)}) for n in range(SIZES[dim])]
            axis = names.index(dim)
            cut = [tile(x.narrow(axis, n, 1)) for n, tile in enumerate(tiles)]
            torch.testing.assert_close(torch.cat(cut, axis), expected)


def coils() -> Dense:
    return Dense(random("C", "X", "Z", "Y"), "CXZY", "XZY", "CXZY")


@pytest.mark.parametrize("to", [None, ("Kx", "Ky")])
def test_a_mask_without_coils_stands_in_any_order_of_composition(
    to: tuple[str, str] | None,
) -> None:
    S, F = coils(), FFT(dims="XY", to=to)
    mask = random("X", "Y")
    D = Diagonal(mask, to or ("X", "Y"))
    x = random("X", "Z", "Y")
    expected = mask[:, None] * torch.fft.fftn(S(x), dim=(1, 3), norm="ortho")
    for A in ((D @ F) @ S, D @ (F @ S), (S.H @ F.H @ D.H).H, (D @ F + 0 * (D @ F)) @ S):
        torch.testing.assert_close(A(x), expected)
        torch.testing.assert_close(A.N(x), A.H(expected))
        assert (A.role("C"), A.role("Z")) == (Role.OUTPUT, Role.BATCH)
        assert A.N.ishape == ("X", "Z", "Y")


def test_the_weights_are_shared() -> None:
    w = torch.nn.Parameter(random("X", "Y"))
    A = Diagonal(w, "XY") @ coils().H.H
    assert any(p is w for p in A.parameters())
    with torch.no_grad():
        w.zero_()
    assert not A(random("X", "Z", "Y")).any()


def test_a_normal_around_what_names_less() -> None:
    S, w = coils(), random("X", "Y")
    x = random("X", "Z", "Y")
    expected = S.H(w[:, None] * S(x))
    torch.testing.assert_close(S.normal(Diagonal(w, "XY"))(x), expected)


def test_batchless_operators_with_other_sides_take_a_batch_in_front() -> None:
    w = torch.randn(3, 2, dtype=torch.complex128)
    B = Dense(w, ("M", "Y"))
    D = Diagonal(random("C", "Y"), "CY")
    A = B @ D
    assert A.oshape == ("C", "M") and A.H.oshape == ("C", "Y")
    x = random("C", "Y")
    torch.testing.assert_close(A(x), D(x) @ w.T)
    torch.testing.assert_close(A.N(x), A.H(A(x)))
    P = Sampling([torch.tensor([1, 0, 1])], [2], ("K",), ("Y",), ())
    assert (P @ Diagonal(random("C", "Y"), "CY")).oshape == ("C", "K")


F2 = FFT(2)
ONES = torch.ones(3, 3)


@pytest.mark.parametrize(
    ("after", "before", "message"),
    [
        (
            F2,
            Diagonal(ONES, ("Kx", "Ky")),
            r"FFT expects \(\.\.\., Nx, Ny\) but Diagonal returns \(Kx, Ky\)\. Did you mean FFT\.H",
        ),
        (
            F2,
            Dense(torch.ones(2, 2, 3), ("Nx", "Ny", "C"), ("Nx", "Ny"), ("Nx", "Ny", "C")),
            r'FFT expects \(.*\) but Dense .*C\)\. Did you mean FFT with dims=\("Nx", "Ny"\)',
        ),
        (F2.H, Diagonal(ONES, ("Nx", "Ny")), r"Did you mean FFT without \.H\?"),
        (
            SimpleLinop(abs, abs, ishape=("Kx", "Ky")),
            F2 @ Diagonal(torch.ones(2, 3, 3), ("C", "Nx", "Ny")),
            r"SimpleLinop expects \(Kx, Ky\) but FFT returns \(C, Kx, Ky\)\. Did you mean Simp.* "
            r'with \("\.\.\.", "Kx", "Ky"\)\?',
        ),
        (
            F2,
            Diagonal(torch.ones(3, 2, 3), ("Nx", "Nz", "Ny")),
            r'Did you mean FFT with dims=\("Nx", "Ny"\), or with \(Nz\) among its dimensions\?',
        ),
        (
            F2,
            Diagonal(torch.ones(2, 3, 2), ("C", "Ny", "Nx")),
            r'in the order \(Ny, Nx\): make FFT with dims=\("Ny", "Nx"\)\.',
        ),
        (F2, Diagonal(ONES, ("Ny", "Nx")), r"the same dimensions in another order: put a Rearr"),
        (
            F2,
            Diagonal(ONES, ("Px", "Py")),
            r"If they are the same dimensions, make FFT with dims=.*, or rename them by Diagonal\."
            r"renamed\("
            r"\{'Px': 'Nx', 'Py': 'Ny'\}\), .*\(a grid operator takes to=\)",
        ),
        (
            Sampling([torch.tensor([0, 2])] * 2, [3, 3], dims=("Nx", "Ny")),
            F2,
            r'Sampling expects .* FFT returns .*\. Did you mean Sampling with dims=\("Kx", "Ky"\)',
        ),
        (F2, Diagonal(torch.ones(3), "N"), r"Give both the same names, or insert the operator"),
        (FFT(dims="X"), FFT(dims="Y"), r"order of these dimensions is not known: give .* shape="),
        (
            Diagonal(ONES, ("Kx", "Ky")) @ F2,
            Diagonal(torch.ones(4, 3), ("Nx", "Ny")),
            r"Nx, which is Kx further on, must have one size, got 4 in Diagonal .* and 3 in Diag",
        ),
    ],
)
def test_the_error_names_both_operators_and_the_remedy(
    after: NamedLinop, before: NamedLinop, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^Chain: .*{message}"):
        after @ before


def test_two_neighbours_that_pull_an_operator_to_and_fro_are_refused() -> None:
    F: Any = FFT(dims=("X", "Y"))
    with pytest.raises(ValueError, match=r"the same dimensions in another order"):
        Diagonal(ONES, ("X", "Y")) @ (F @ Diagonal(ONES, ("Y", "X")))
