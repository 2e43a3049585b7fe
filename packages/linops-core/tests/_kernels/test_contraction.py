import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels import _contraction
from linops_core._kernels._contraction import Contraction, axes_along, letters_of

KINDS = {
    ("cxy", "xy", "cxy"): "product",
    ("cxy", ".xy", ".cxy"): "product",
    ("xc", ".cx", ".cx"): "product",
    ("mn", "", "mn"): "product",
    ("", "n", "n"): "product",
    ("mn", "n", "m"): "matrix",
    ("mn", ".n", ".m"): "matrix",
    ("mn", "m", "n"): "transposed matrix",
    ("mn", "bm", "bn"): "transposed matrix",
    ("cxy", "cxy", "xy"): "sum of products",
    ("xyc", ".cyx", ".xy"): "sum of products",
    ("xyc", "cyx", "yx"): "sum of products",
    ("nab", "n", "ab"): "any",
    ("bmn", "bn", "bm"): "any",
    ("mn", "n.", "m."): "any",
    ("cx", "cx", ""): "any",
}
SIZES = {"c": 3, "x": 2, "y": 4, "m": 2, "n": 3, "b": 2, "a": 2}
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def lengths(letters: str, hidden: list[int]) -> list[int]:
    front, *rest = letters.split(".") if "." in letters else ["", letters]
    middle = hidden if "." in letters else []
    return [*(SIZES[s] for s in front), *middle, *(SIZES[s] for s in "".join(rest))]


@pytest.mark.parametrize(("letters", "kind"), KINDS.items())
def test_each_form_has_its_kind(letters: tuple[str, str, str], kind: str) -> None:
    assert Contraction(*letters).kind == kind


@given(
    st.sampled_from([*KINDS]),
    st.lists(st.integers(1, 2), max_size=2),
    st.sampled_from(DTYPES),
    st.sampled_from(DTYPES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_every_kind_is_the_sum_of_products_in_the_promoted_dtype(
    letters: tuple[str, str, str],
    hidden: list[int],
    of_weight: torch.dtype,
    of_x: torch.dtype,
    conjugated: bool,
    large: bool,
    in_a_loop: bool,
) -> None:
    weight = torch.randn(lengths(letters[0], hidden)).to(of_weight)
    x = torch.randn(lengths(letters[1], hidden)).to(of_x)
    weight, x = (weight.conj(), x.conj()) if conjugated else (weight, x)
    equation = f"{letters[0]},{letters[1]}->{letters[2]}".replace(".", "...")
    expected = torch.einsum(equation, weight.to(torch.complex128), x.to(torch.complex128))
    with pytest.MonkeyPatch.context() as patch:
        if large:  # as if the tensors were: in a loop, or by einsum
            patch.setattr(_contraction, "_at_once", lambda x, n_products: min(1, n_products))
            patch.setattr(_contraction, "_PRODUCT_OVER_COUNT", 0 if in_a_loop else 2**30)
        y = Contraction(*letters)(weight, x)
    assert y.dtype is torch.promote_types(of_weight, of_x)
    precise = {of_weight, of_x} <= {torch.float64, torch.complex128}
    tolerance = 1e-12 if precise else 1e-4
    result = y.to(torch.complex128)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("n_at_once", [1, 2])
def test_products_are_added_up(n_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_contraction, "_at_once", lambda x, n_products: n_at_once)
    monkeypatch.setattr(_contraction, "_PRODUCT_OVER_COUNT", 0)
    weight, x = (torch.randn(3, 2, 4, dtype=torch.complex128) for _ in range(2))
    y = Contraction("cxy", "cxy", "yx")(weight.conj(), x)
    torch.testing.assert_close(y, (weight.conj() * x).sum(0).mT)


def test_an_empty_sum_is_zero() -> None:
    y = Contraction("cx", "cx", "x")(torch.ones(0, 2), torch.ones(0, 2))
    assert y.tolist() == [0, 0]


def test_axes_are_laid_out_without_a_copy() -> None:
    x = torch.rand(2, 3)
    for own, target, shape in (
        ("ab", "ab", (2, 3)),
        ("ab", "ba", (3, 2)),
        ("ab", "cab", (2, 3)),
        ("ab", "acb", (2, 1, 3)),
        ("ab", "bca", (3, 1, 2)),
        ("ab", ".ab", (2, 3)),
        (".b", ".b", (2, 3)),
        (".b", ".cb", (2, 1, 3)),
        (".b", ".bc", (2, 3, 1)),
    ):
        view = axes_along(own, target).view(x)
        assert view.shape == shape
        assert view.data_ptr() == x.data_ptr()


@given(st.permutations("ABC"), st.integers(0, 3), st.integers(0, 2), st.integers(0, 3))
def test_an_aligned_weight_broadcasts_by_names(
    target: list[str], n_dims: int, n_hidden: int, run_at: int
) -> None:
    sizes = {"A": 2, "B": 3, "C": 4}
    dims = sorted(target[:n_dims])
    weight = torch.randn([sizes[dim] for dim in dims])
    names = [*target[:run_at], "...", *target[run_at:]] if n_hidden else target
    lengths_of_x = [n for d in names for n in ([5] * n_hidden if d == "..." else [sizes[d]])]
    x = torch.randn(lengths_of_x)
    result = axes_along(*letters_of(dims, names)).view(weight, x.ndim)
    assert result.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
    product = result * x
    assert product.shape == x.shape
    letters, inputs = "".join(dims).lower(), "".join(names).lower()
    torch.testing.assert_close(product, torch.einsum(f"{letters},{inputs}->{inputs}", weight, x))


def test_the_adjoint_of_coil_maps_holds_one_product_and_not_all() -> None:
    maps = torch.randn(8, 64, 64, dtype=torch.complex64)
    images = torch.randn(8, 64, 64, dtype=torch.complex64)
    with torch.profiler.profile(profile_memory=True) as profile:
        Contraction("cxy", "cxy", "xy")(maps.conj(), images)
    image = 64 * 64 * 8
    assert max(e.self_cpu_memory_usage for e in profile.events()) <= image


@pytest.mark.parametrize(
    "shapes", [("mn", "n", "m"), ("nm", "n", "m"), ("mn", "bn", "bm"), ("amn", "bna", "mb")]
)
@pytest.mark.parametrize("of_weight", [torch.float32, torch.complex64])
@pytest.mark.parametrize("of_x", [torch.float32, torch.complex64])
def test_long_sums_of_equal_numbers_are_right_in_single_precision(
    shapes: tuple[str, str, str], of_weight: torch.dtype, of_x: torch.dtype
) -> None:
    sizes = {"m": 2, "n": 2**19, "b": 1, "a": 1}
    weight = torch.full([sizes[letter] for letter in shapes[0]], 0.1, dtype=of_weight)
    x = torch.full([sizes[letter] for letter in shapes[1]], 0.7, dtype=of_x)
    relative = Contraction(*shapes)(weight, x).to(torch.complex128) / (0.07 * 2**19)
    torch.testing.assert_close(relative, torch.ones_like(relative), rtol=1e-4, atol=0)
