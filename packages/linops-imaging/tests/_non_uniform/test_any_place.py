"""NUFFT of images at any place among the dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from linops_core import FFT, Chain, Dense, Diagonal, NamedLinop, Sampling
from linops_core.testing import BaseNamedLinopTests
from linops_imaging import NUFFT
from linops_imaging._non_uniform import _nufft
from linops_imaging._non_uniform._toeplitz_normal import ToeplitzNormal

SIZES = {"C": 2, "T": 3, "Nx": 4, "Ny": 3, "Nz": 5}


def locations(*lengths: int, sizes: Sequence[int] = (4, 3)) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand(*lengths, len(sizes), dtype=torch.float64, generator=generator) - 0.5
    return unit * torch.tensor(sizes, dtype=torch.float64)


def random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=torch.complex128)


@pytest.mark.variant
class TestNUFFTAtAnyPlace(BaseNamedLinopTests):
    def make_linop(self) -> NamedLinop:
        return NUFFT(
            locations(3, 5),
            (4, 3),
            dims=("Nx", "Ny"),
            shape=("Nx", "T", "C", "Ny"),
            to=("T", "K"),
            method="interpolate",
        )

    def sizes(self) -> Mapping[str, int]:
        return {"C": 2}


@given(st.data())
@settings(max_examples=settings().max_examples // 3)
def test_it_is_the_transform_of_moved_axes(data: st.DataObject) -> None:
    batch = data.draw(st.lists(st.sampled_from(["C", "T", "Nz"]), unique=True))
    dims = data.draw(st.permutations(["Nx", "Ny"]))
    shape = data.draw(st.permutations([*batch, *dims]))
    batch = [dim for dim in shape if dim not in dims]
    frames = [dim for dim in batch if dim == "T" and data.draw(st.booleans())]
    own = data.draw(st.sampled_from([["K"], ["S", "R"], ["S", "R", "Q"]]))
    locs = locations(
        *(SIZES[f] for f in frames), *[2, 3, 2][: len(own)], sizes=[SIZES[dim] for dim in dims]
    )
    options: Any = {
        "method": data.draw(st.sampled_from(["table", "interpolate", "finufft"])),
        "toeplitz": data.draw(st.booleans()),
        "tol": 1e-9,
    }
    sizes = [SIZES[dim] for dim in dims]
    A = NUFFT(locs, sizes, dims=dims, shape=shape, to=(*frames, *own), **options)
    last = NUFFT(locs, sizes, (*frames, *own), dims, batch_shape=batch, **options)
    x = random(*(SIZES[dim] for dim in shape))
    moved = x.movedim([shape.index(dim) for dim in dims], (-2, -1))
    y, expected = A(x), last(moved)
    lengths = dict(zip(last.oshape, expected.shape, strict=True))
    assert y.shape == tuple([lengths[dim] for dim in A.oshape])
    order = [A.oshape.index(dim) for dim in last.oshape]
    torch.testing.assert_close(y.permute(order), expected)
    back = [shape.index(dim) for dim in last.ishape]
    torch.testing.assert_close(A.H(y).permute(back), last.H(expected))
    weights = torch.rand(locs.shape[:-1], dtype=torch.float64)
    D = Diagonal.from_weight(weights, (*frames, *own), A.oshape)
    E = Diagonal.from_weight(weights, (*frames, *own), last.oshape)
    for normal, known in ((A.N, last.N), (A.normal(D), last.normal(E))):
        assert isinstance(normal, ToeplitzNormal) == options["toeplitz"]
        torch.testing.assert_close(normal(x).permute(back), known(moved))
    if batch:
        dim = data.draw(st.sampled_from(batch))
        linop, part = data.draw(st.sampled_from([(A, x), (A.N, x), (A.H, y)]))
        at, there = ([*map(str, side)].index(dim) for side in (linop.ishape, linop.oshape))
        result = linop.split(linop, {dim: slice(1, 2)})(part.narrow(at, 1, 1))
        torch.testing.assert_close(result, linop(part).narrow(there, 1, 1))


@pytest.mark.parametrize("dim", ["T", "C"])
def test_some_images_at_a_time_are_at_their_place(
    dim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    locs, to = (locations(3, 5), ("T", "K")) if dim == "T" else (locations(5), ("K",))
    A = NUFFT(locs, (4, 3), dims=("Nx", "Ny"), shape=("Nx", "Ny", dim), to=to, method="interpolate")
    x = random(4, 3, 3)
    y, back = A(x), A.H(A(x))
    monkeypatch.setattr(_nufft, "_FRAMES", 1)
    monkeypatch.setattr(_nufft, "_STEP", 1)
    assert y.shape == (5, 3)
    torch.testing.assert_close(A(x), y)
    torch.testing.assert_close(A.H(y), back)


@pytest.mark.parametrize("method", ["table", "interpolate", "finufft"])
def test_a_stack_of_stars_is_the_transform_in_three_dimensions(method: str) -> None:
    locs = locations(3, 7)
    grid = ("Nx", "Nz", "Ny")
    maps = Dense(random(2, 4, 5, 3), ("C", *grid), grid, ("C", *grid))
    plane = NUFFT(
        locs,
        (4, 3),
        dims=("Nx", "Ny"),
        to=("Spoke", "Readout"),
        method=method,
        tol=1e-10,
        toeplitz=True,
    )
    along_z = FFT(dims=("Nz",), to=("Kz",), centered=True)
    A = along_z @ (plane @ maps)
    assert A.oshape == ("C", "Spoke", "Kz", "Readout")
    kz = torch.arange(5.0, dtype=torch.float64) - 2
    at = torch.stack(
        [
            locs[:, None, :, 0].expand(3, 5, 7),
            kz[:, None].expand(3, 5, 7),
            locs[:, None, :, 1].expand(3, 5, 7),
        ],
        -1,
    )
    whole = NUFFT(at, (4, 5, 3), ("Spoke", "Kz", "Readout"), grid, tol=1e-10) @ maps
    x, y = random(4, 5, 3), random(2, 3, 5, 7)
    torch.testing.assert_close(A(x), whole(x), atol=1e-7, rtol=0)
    torch.testing.assert_close(A.H(y), whole.H(y), atol=1e-7, rtol=0)
    torch.testing.assert_close(A.N(x), whole.N(x), atol=1e-7, rtol=0)
    # The FFT along z is unitary, so the normal operator acts on each slice, and can be cut there.
    assert isinstance(A.N, Chain) and not any(isinstance(part, FFT) for part in A.N.flatten())
    tile = A.N.split(A.N, {"Nz": slice(1, 3)})
    torch.testing.assert_close(tile(x[:, 1:3]), A.N(x)[:, 1:3])
    # The other order, with some planes of k-space: the convolution is inside.
    some = Sampling([torch.tensor([0, 2, 3])], (5,), dims=("Kz",), to=("Q",))
    B = plane @ (some @ (along_z @ maps))
    torch.testing.assert_close(B(x), A(x)[:, :, [0, 2, 3]], atol=1e-7, rtol=0)
    assert any(isinstance(part, ToeplitzNormal) for part in B.N.flatten())
    torch.testing.assert_close(B.N(x), B.H(B(x)), atol=1e-7, rtol=0)


def test_neighbours_give_the_other_dimensions() -> None:
    A = NUFFT(locations(3, sizes=(5,)), (5,), dims=("Kx",), to=("K",))
    F = FFT(dims=("Ny",), shape=("Kx", "C", "Ny"), to=("Ky",))
    assert (A @ F).oshape == ("K", "C", "Ky")
    with pytest.raises(ValueError, match="order of these dimensions is not known: give one of"):
        A @ FFT(dims=("Ny",), to=("Ky",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output_shape": ("K",)}, "output_shape must not come with dims="),
        ({"batch_shape": ("C",)}, "batch_shape must not come with dims="),
        ({"dims": ("Nx",)}, "dims must be 2 dimensions"),
        ({"to": None}, "to must have 1 dimensions"),
        ({"to": ("K", "L")}, "to must have 1 dimensions"),
        ({"shape": ("Nx", "C")}, "dims must be different named dimensions"),
        ({"shape": ("Nx", "K", "T", "Ny"), "to": ("Nx",)}, "must have different names"),
        ({"dims": None, "to": ("K",)}, "to= must come with dims="),
        ({"dims": None, "to": None, "output_shape": "KL"}, "output_shape must have 1 dimensions"),
    ],
)
def test_wrong_names_are_refused(arguments: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"dims": ("Nx", "Ny"), "to": ("K",), **arguments}
    with pytest.raises(ValueError, match=message):
        NUFFT(locations(6), (4, 3), **given)  # type: ignore[arg-type]
