import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core import Normal, Role, Sampling
from linops_core.siblings import without_fftshift
from linops_core.testing import BaseNamedLinopTests
from nameddim import ND


def sampling(*batch: str) -> Sampling:
    idx = [torch.tensor([0, 2, 2, 1]), torch.tensor([1, 3, 3, 0])]
    return Sampling(idx, (3, 4), batch_shape=batch)


def counts(*batch: str) -> Normal:
    normal = sampling(*batch).N
    assert isinstance(normal, Normal)
    return normal


class TestSampleCounts(BaseNamedLinopTests):
    def make_linop(self) -> Normal:
        return counts("C")

    def sizes(self) -> dict[str, int]:
        return {"C": 2}


def test_each_point_is_multiplied_by_how_often_it_is_sampled() -> None:
    expected = torch.zeros(3, 4)
    expected[0, 1], expected[2, 3], expected[1, 0] = 1, 2, 1
    assert torch.equal(counts()(torch.ones(3, 4)), expected)


def test_it_can_be_sliced_along_the_grid_which_the_sampling_cannot() -> None:
    N = counts("C")
    assert [N.role(dim) for dim in ("C", "Kx", "Ky", "K")] == [Role.BATCH] * 3 + [Role.INNER]
    tile = N.split(N, {ND("Kx"): slice(1, 3), ND("C"): slice(0, 1)})
    within = tile.split(tile, {ND("Kx"): slice(1, 2)})
    assert (tile.size("Kx"), within.size("Kx"), within.size("Ky")) == (2, 1, 4)
    assert torch.equal(within(torch.ones(1, 1, 4)), counts()(torch.ones(3, 4))[None, 2:3])


def test_it_is_its_own_conjugate_and_transpose() -> None:
    N = counts()
    assert N.conj() is N
    assert torch.equal(N.T(torch.ones(3, 4)), N(torch.ones(3, 4)))


def test_a_renamed_tile_is_the_same_tile() -> None:
    N = counts()
    tile = N.split(N, {ND("Kx"): slice(1, 3)}).renamed({ND("Kx"): ND("Qx")})
    assert tile.ishape == ("Qx", "Ky") and tile.size("Qx") == 2
    assert torch.equal(tile(torch.ones(2, 4)), N(torch.ones(3, 4))[1:])


def test_new_indices_are_counted() -> None:
    A = sampling()
    N = A.N
    A.idx_0 = torch.tensor([0, 0, 0, 0])
    assert N(torch.ones(3, 4))[0].tolist() == [1, 1, 0, 2]


def test_a_tile_of_the_grid_is_not_shifted() -> None:
    N = counts()
    tile = N.split(N, {ND("Kx"): slice(1, 3)})
    assert without_fftshift(tile, [ND("Kx")]) is None
    assert isinstance(without_fftshift(N, [ND("Kx")]), Normal)


@given(st.integers(0, 2**16), st.sets(st.sampled_from(["Kx", "Ky"])))
def test_counts_without_fftshift_are_the_shifted_counts(seed: int, dims: set[str]) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 5, (2,), generator=generator).tolist()
    idx = [torch.randint(n, (4,), generator=generator) for n in sizes]
    N = Sampling(idx, sizes).N
    shifted = without_fftshift(N, [ND(dim) for dim in dims])
    assert shifted is not None
    axes = [axis for axis, dim in enumerate(("Kx", "Ky")) if dim in dims]
    whole = N(torch.ones(sizes))
    expected = torch.fft.ifftshift(whole, dim=axes) if axes else whole
    assert torch.equal(shifted(torch.ones(sizes)), expected)
    again = without_fftshift(shifted, [ND(dim) for dim in dims])
    assert again is None if dims else again is not None


@given(st.data())
def test_kept_counts_are_those_of_the_indices_the_tile_and_the_dtype(data: st.DataObject) -> None:
    A = sampling()
    N = A.N
    whole = slice(None)
    steps = st.sampled_from(["write", "replace", "K", "Kx", "float32", "complex128"])
    for step in data.draw(st.lists(steps, max_size=5)):
        dtype = {"float32": torch.float32, "complex128": torch.complex128}.get(step, torch.float64)
        cut = data.draw(st.integers(0, 2))
        if step == "write":
            A.idx[1][cut] = 1
        elif step == "replace":
            A.idx_0 = torch.tensor([cut, 1, 1, cut])
        window = {ND(step): slice(cut, cut + 1)} if step in ("K", "Kx") else {}
        tile = N.split(N, window)
        expected = torch.zeros(3, 4, dtype=dtype)
        for at in zip(*[idx.tolist()[window.get(ND("K"), whole)] for idx in A.idx], strict=True):
            expected[at] += 1
        rows = expected[window.get(ND("Kx"), whole)]
        result = tile(torch.ones_like(rows))
        assert result.dtype == dtype and torch.equal(result, rows)


def test_counts_beyond_those_that_a_float_counts() -> None:
    """A float32 to which ones are added stays at 2^24."""
    A = Sampling([torch.zeros(1, dtype=torch.int64).expand(2**24 + 4)], [2])
    assert A.N(torch.ones(2)).tolist() == [2**24 + 4, 0]
