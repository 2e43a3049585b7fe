import torch
from hypothesis import given
from hypothesis import strategies as st

from linops_core._kernels._align import aligned
from nameddim import ND


@given(st.permutations("ABC"), st.integers(0, 3), st.integers(0, 2), st.booleans())
def test_an_aligned_weight_broadcasts_by_names(
    target: list[str], n_dims: int, n_hidden: int, with_ellipsis: bool
) -> None:
    sizes = {"A": 2, "B": 3, "C": 4}
    dims = sorted(target[:n_dims])
    weight = torch.randn([sizes[dim] for dim in dims])
    names = (["..."] if with_ellipsis else []) + target
    hidden = n_hidden if with_ellipsis else 0
    ndim = hidden + 3
    found = aligned(weight, tuple(map(ND, dims)), tuple(map(ND, names)), ndim)
    assert found.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr()
    x = torch.randn([5] * hidden + [sizes[dim] for dim in target])
    product = found * x
    assert product.shape == x.shape
    letters, inputs = "".join(dims).lower(), "..." + "".join(target).lower()
    torch.testing.assert_close(product, torch.einsum(f"{letters},{inputs}->{inputs}", weight, x))


def test_an_ellipsis_may_be_between_named_dimensions() -> None:
    weight, x = torch.randn(2, 3), torch.randn(3, 5, 2)
    found = aligned(weight, (ND("B"), ND("A")), (ND("A"), ND("..."), ND("B")), 3)
    torch.testing.assert_close(found * x, torch.einsum("ba,a...b->a...b", weight, x))
