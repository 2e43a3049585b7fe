import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from linops_core import (
    FFT,
    Dense,
    Diagonal,
    Identity,
    NamedLinop,
    Role,
    Sampling,
    Scalar,
    SplitError,
    SumReduce,
    Truncate,
)
from linops_core.siblings import without_fftshift
from nameddim import ND

NORMS = ["ortho", "backward", "forward"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_point_at_the_origin_becomes_a_constant(ndim: int, norm: str) -> None:
    lengths = [4, 3, 5][:ndim]
    n = math.prod(lengths)
    x = torch.zeros(lengths, dtype=torch.complex128)
    x[(0,) * ndim] = 1
    scale = {"ortho": n**-0.5, "backward": 1.0, "forward": 1 / n}[norm]
    torch.testing.assert_close(FFT(ndim, norm=norm)(x), torch.full_like(x, scale))
    centre = tuple(length // 2 for length in lengths)
    x = torch.zeros_like(x)
    x[centre] = 1
    torch.testing.assert_close(FFT(ndim, norm=norm, centered=True)(x), torch.full_like(x, scale))


def test_a_shift_becomes_a_phase() -> None:
    n, shift = 6, 2
    x = torch.randn(n, dtype=torch.complex128)
    k = torch.arange(n, dtype=torch.float64)
    phase = torch.exp(-2j * math.pi * k * shift / n)
    F = FFT(1)
    torch.testing.assert_close(F(x.roll(shift)), phase * F(x))


@pytest.mark.parametrize("n", [32, 33])
def test_a_centred_gaussian_becomes_a_centred_gaussian(n: int) -> None:
    # exp(-pi t^2 / s^2) has the transform s exp(-pi s^2 f^2), with f = k / n.
    s = 6.0
    t = torch.arange(n, dtype=torch.float64) - n // 2
    x = torch.exp(-math.pi * (t / s) ** 2)
    expected = s * torch.exp(-math.pi * (s * t / n) ** 2)
    y = FFT(1, norm="backward", centered=True)(x)
    torch.testing.assert_close(y, expected.to(torch.complex128), rtol=0, atol=1e-9)


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_the_normal_is_a_multiple_of_the_identity(norm: str, centered: bool) -> None:
    F = FFT(2, ("C",), norm=norm, centered=centered)
    x = torch.randn(2, 3, 4, dtype=torch.complex128)
    factor = {"ortho": 1.0, "backward": 12.0, "forward": 1 / 12}[norm]
    torch.testing.assert_close(F.N(x), factor * x)
    torch.testing.assert_close(F.H(F(x)), factor * x)
    torch.testing.assert_close(F.H.N(x), factor * x)
    assert isinstance(F.N, Identity) == (norm == "ortho")


def test_batches_can_be_sliced_and_the_grid_cannot() -> None:
    F = FFT(2, ("C",))
    assert str(F.role("C")) == "batch"
    for dim in ("Nx", "Ny", "Kx", "Ky"):
        assert str(F.role(dim)) == "opaque"
        assert F.why_opaque(dim) == "a Fourier transform mixes all of its grid"


@pytest.mark.parametrize("norm", ["backward", "forward"])
def test_the_grid_of_a_normal_cannot_be_sliced_where_its_number_needs_all_of_it(norm: str) -> None:
    F = FFT(1, ("C",), norm=norm)
    for A, dim in ((F.N, "Nx"), (F.H.N, "Kx")):
        reason = (
            f'{dim} cannot be split: .* all of its grid; its normal can be sliced with norm="ortho"'
        )
        with pytest.raises(SplitError, match=reason):
            A.split(A, {ND(dim): slice(0, 1)})
        assert str(A.role("C")) == "batch"


def test_names_of_the_grid_can_be_given() -> None:
    F = FFT(1, grid_shapes=(("T",), ("F",)))
    assert (F.ishape, F.oshape) == (("...", "T"), ("...", "F"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), r"FFT: ndim must be a positive integer, got 0"),
        ((1.0,), r"FFT: ndim must be a positive integer, got 1.0"),
        ((1, None, None, ["ortho"]), r"FFT: norm must be one of .*, got \['ortho'\]"),
        ((1, None, None, "unitary"), r"FFT: norm must be one of .*, got 'unitary'"),
        ((2, None, (("A",), ("B",))), r"FFT: grid_shapes must be 2 image and 2 k-space"),
        ((1, None, (("A",),)), r"FFT: grid_shapes must be 1 image and 1 k-space"),
        ((1, None, 3), r"FFT: grid_shapes must be 1 image and 1 k-space dimensions, got 3"),
        ((1, None, (1, 2)), r"FFT: grid_shapes must be 1 image and 1 k-space dimensions, got"),
    ],
)
def test_what_is_no_transform_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FFT(*arguments)


@st.composite
def sense_like(draw: st.DrawFn) -> tuple[NamedLinop, FFT, NamedLinop]:
    """Draw a centred transform and something that treats each of its points by itself."""
    sizes = [draw(st.integers(1, 5)) for _ in range(draw(st.integers(1, 2)))]
    ndim, generator = len(sizes), torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def random(*lengths: int) -> Tensor:
        return torch.randn(lengths, dtype=torch.complex128, generator=generator)

    image, kspace = ("Nx", "Ny")[:ndim], ("Kx", "Ky")[:ndim]
    F = FFT(ndim, norm=draw(st.sampled_from(["ortho", "forward"])), centered=True)
    maps = Dense(random(2, *sizes), ("C", *image), image, ("C", *image))
    idx = [torch.randint(n, (4,), generator=generator) for n in sizes]
    mask = Diagonal(random(*sizes), ("...", *kspace))
    per_coil = Diagonal(random(2, *sizes), ("C", *kspace))
    whitening = Dense(random(2, 2), ("D", "C"), ("C", *kspace), ("D", *kspace))
    inside: list[NamedLinop] = [
        Sampling(idx, sizes),
        mask,
        per_coil,
        whitening,
        Scalar(2j),
        mask @ per_coil,
        whitening @ mask,
        mask + per_coil,
        3 * mask,
        Diagonal.from_weight(random(sizes[0]), kspace[:1], ("...", *kspace)),
    ]
    return maps, F, draw(st.sampled_from(inside))


@given(sense_like())
def test_the_normal_of_a_centred_transform_moves_no_data(
    parts: tuple[NamedLinop, FFT, NamedLinop],
) -> None:
    S, F, M = parts
    A = M @ F @ S
    matrix = A.to_dense()
    torch.testing.assert_close(A.N.to_dense(), matrix.mH @ matrix)
    transforms = [part for part in A.N.flatten() if isinstance(part, FFT)]
    assert not any(part.centered for part in transforms)
    # The weights are shifted when they are read: none is kept, and changes are seen.
    own = {id(t) for t in (*A.parameters(), *A.buffers())}
    assert {id(t) for t in (*A.N.parameters(), *A.N.buffers())} <= own
    for tensor in A.buffers():
        if tensor.is_complex():
            tensor.mul_(2)
    matrix = A.to_dense()
    torch.testing.assert_close(A.N.to_dense(), matrix.mH @ matrix)
    tiles = [A.N.split(A.N, {ND("C"): slice(k, k + 1)}) for k in range(2)]
    if A.N.role("C") is Role.INNER:
        torch.testing.assert_close(sum(tile.to_dense() for tile in tiles), A.N.to_dense())
        packed = [tile.with_weights(Tensor.clone) for tile in tiles]
        torch.testing.assert_close(sum(tile.to_dense() for tile in packed), A.N.to_dense())


def test_what_mixes_points_keeps_the_shifts() -> None:
    F = FFT(1, (), centered=True)
    mixing = Dense(torch.randn(3, 4, dtype=torch.complex128), ("K", "Kx"))
    along_y = FFT(1, ("Kx",), (("Ny",), ("Ky",)), centered=True)
    half = Diagonal(torch.ones(2, 3), ("Kx", "Ky")) @ along_y
    for A, sizes in ((mixing @ F, {"Nx": 4}), (half, {"Kx": 2, "Ny": 3})):
        matrix = A.to_dense(sizes)
        torch.testing.assert_close(A.N.to_dense(sizes), matrix.mH @ matrix)
    assert any(part.centered for part in (mixing @ F).N.flatten() if isinstance(part, FFT))


def test_a_sum_over_all_points_keeps_the_shifts() -> None:
    F, total = FFT(1, (), centered=True), SumReduce(("Kx",), (), sizes={"Kx": 3})
    inner = total.H @ total  # the same wherever it begins, and yet no diagonal
    matrix = F.to_dense({"Nx": 3})
    expected = matrix.mH @ torch.ones(3, 3, dtype=torch.complex128) @ matrix
    torch.testing.assert_close(F.normal(inner).to_dense({"Nx": 3}), expected)


@pytest.mark.parametrize("dim", ["C", "Kx"])
def test_an_operator_on_a_grid_may_be_between_centred_transforms(dim: str) -> None:
    F = FFT(1, ("C",), (("Nx",), ("Kx",)), centered=True)
    axis = ("C", "Kx").index(dim)
    names = ("C", "Kx")
    cut = Truncate(dim, (4, 5)[axis], 3, names, names)
    A = F.normal(cut.N)
    x = torch.randn(4, 5, dtype=torch.complex128)
    torch.testing.assert_close(A(x), F.H(cut.N(F(x))))


def test_without_fftshift_it_is_the_plain_transform() -> None:
    F = FFT(2, centered=True)
    grid = [*F.ishape[1:], *F.oshape[1:]]
    plain = without_fftshift(F, grid)
    assert isinstance(plain, FFT) and not plain.centered and F.centered
    assert without_fftshift(F, [ND("C")]) is F
    assert without_fftshift(F, grid[:1]) is None
    assert without_fftshift(FFT(2), grid) is None
    shifted = torch.fft.fftshift(torch.arange(12.0).reshape(3, 4))
    x = torch.arange(12.0).reshape(3, 4)
    torch.testing.assert_close(F(shifted), torch.fft.fftshift(plain(x)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128])
def test_an_empty_batch_has_an_empty_transform(dtype: torch.dtype) -> None:
    x = torch.ones(0, 3, dtype=dtype)
    for A in (FFT(1), FFT(1, centered=True)):
        assert A(x).shape == A.H(x).shape == (0, 3)
        assert A(x).dtype == A(torch.ones(1, 3, dtype=dtype)).dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("centered", [False, True])
def test_half_precision_that_torch_does_not_transform_is_refused(
    dtype: torch.dtype, centered: bool
) -> None:
    F = FFT(1, centered=centered)
    message = rf"FFT .*: the dtype must be .*, got {dtype} \(Unsupported .*\); convert .*float32"
    for A in (F, F.H):
        with pytest.raises(TypeError, match=message):
            A(torch.ones(4, dtype=dtype))
