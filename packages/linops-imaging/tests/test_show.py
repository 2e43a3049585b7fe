from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot

from linops_imaging._show import panels, show
from nameddim import NamedDimension

X = torch.arange(6.0).reshape(2, 3) - 2


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    with matplotlib.rc_context(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        matplotlib.use("agg")
        yield
        pyplot.close("all")


def drawn(figure: object) -> list[tuple[str, np.ndarray]]:
    """Return the titles and the pixels of the panels."""
    return [
        (place.get_title(), np.asarray(place.images[0].get_array().data))
        for place in figure.axes  # type: ignore[attr-defined]
        if place.images
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.bool])
def test_an_image_is_drawn_as_it_is(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    ((title, pixels),) = drawn(show(x, title="head"))
    assert title == "head"
    np.testing.assert_array_equal(pixels, x.double())


def test_magnitudes_of_complex_images() -> None:
    x = torch.tensor([[3 + 4j, -1j], [0, 2]])
    frozen = x.numpy().copy()
    frozen.setflags(write=False)
    arrays = (x.numpy(), frozen, x.numpy()[::-1][::-1], x.flip(0).numpy()[::-1])
    for image in (x, x.conj().requires_grad_(), *arrays, x.numpy().astype(">c16")):
        ((_, pixels),) = drawn(show(image))
        np.testing.assert_allclose(pixels, [[5, 1], [0, 2]])


def test_an_upright_image_has_its_first_axis_to_the_right_and_its_second_up() -> None:
    figure = show(X, ("Nx", "Ny"), upright=True)
    ((_, pixels),) = drawn(figure)
    for right in range(2):
        for up in range(3):
            assert pixels[2 - up, right] == X[right, up]
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("Nx", "Ny")
    figure = show(X, ("Nx", "Ny"))
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("Ny", "Nx")


@given(st.lists(st.integers(1, 5), max_size=2), st.integers(1, 7))
def test_images_of_a_stack_have_their_indices(stack: list[int], most: int) -> None:
    x = torch.rand(*stack, 2, 3, dtype=torch.float64)
    names = ("T", "Nz")[2 - len(stack) :]
    images = list(panels("", x, NamedDimension.infer((*names, "Nx", "Ny")), most))
    assert len(images) == min(most, x[..., 0, 0].numel())
    indices = []
    for title, image in images:
        parts = [part.split(" = ") for part in title.split(", ") if part]
        assert [name for name, _ in parts] == [*names]
        indices.append(tuple(int(number) for _, number in parts))
        assert torch.equal(x[indices[-1]], image)
    assert indices == sorted(set(indices))


def test_few_slices_of_a_volume_have_equal_distances() -> None:
    titles = [title for title, _ in drawn(show(torch.rand(100, 2, 2), max_panels=4))]
    assert titles == ["12", "37", "62", "87"]


def test_a_mapping_gives_titles_and_dims_name_the_last_axes() -> None:
    figure = show({"maps": torch.rand(2, 3, 4), "sum": torch.rand(3, 4)}, ("C", "Nx", "Ny"))
    assert [title for title, _ in drawn(figure)] == ["maps, C = 0", "maps, C = 1", "sum"]
    assert [title for title, _ in drawn(show([X, X]))] == ["", ""]


def test_all_images_have_one_scale() -> None:
    figure = show([X, 2 * X])
    assert [place.images[0].get_clim() for place in figure.axes[:2]] == [(-4, 6)] * 2
    assert show(X.abs() + 1).axes[0].images[0].get_clim() == (0, 4)
    assert show(X, limits=(1, 2)).axes[0].images[0].get_clim() == (1, 2)
    assert show(X * torch.nan).axes[0].images[0].get_clim() == (0, 1)


def test_what_is_not_finite_is_red_and_does_not_change_the_scale() -> None:
    x = X.clone()
    x[0, 0], x[1, 1] = torch.nan, torch.inf
    image = show(x).axes[0].images[0]
    assert image.get_clim() == (-1, 3)
    assert image.get_cmap().get_bad().tolist() == [1, 0, 0, 1]


def test_phases_are_colours_on_black() -> None:
    x = torch.tensor([[1, 1j, -1, 0], [0.5, 0, 0, 0]])
    (_, magnitude), (title, colours) = drawn(show(x, title="map", phase=True))
    assert title == "phase of map"
    np.testing.assert_allclose(magnitude, x.abs())
    np.testing.assert_allclose(colours.max(-1), x.abs(), atol=0.01)  # the brightness
    assert np.abs(colours[0, 0] - colours[0, 1]).max() > 0.3
    np.testing.assert_allclose(colours[0, 0] / 2, colours[1, 0], atol=1e-6)
    (_, _), (title, _) = drawn(show(x, phase=True))
    assert title == "phase"


def test_images_are_drawn_where_asked() -> None:
    figure, axes = pyplot.subplots(1, 3)
    assert show(X, axes=axes[0]) is figure
    assert show([X, X], axes=axes[1:]) is figure
    assert [len(place.images) for place in figure.axes] == [1, 1, 1]


def test_pixels_are_square_by_default() -> None:
    assert show(X).axes[0].get_aspect() == 1
    assert show(X, aspect="auto").axes[0].get_aspect() == "auto"


def test_the_default_device_does_not_matter() -> None:
    with torch.device("meta"):
        show(torch.zeros(3, 2, 2, device="cpu"), phase=True)


def test_x_does_not_change() -> None:
    x = X.clone()
    show(x, phase=True)
    assert torch.equal(x, X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.ones(3)}, r"must have two axes or more .* got the shape \(3,\)"),
        ({"x": torch.ones(3, 0)}, r"at least one element, got the shape \(3, 0\)"),
        ({"x": []}, "x must have at least one array, got none"),
        ({"x": X, "dims": ("Nx",)}, r"dims must name each axis .*\(2, 3\), got \(Nx\)"),
        ({"x": X, "aspect": "wide"}, "aspect must be 'equal' or 'auto', got 'wide'"),
        ({"x": X, "max_panels": 0}, "max_panels must be at least 1, got 0"),
        ({"x": [X, X], "axes": pyplot}, "axes must be 2, one for each panel, got 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        show(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X, "limits": 1}, "show: limits must be two numbers, of black and of white, got 1"),
        ({"x": X, "limits": (0, 1, 2)}, "limits must be two numbers"),
        ({"x": X, "limits": "ab"}, "limits must be two numbers, of black and of white, got 'ab'"),
        ({"x": X, "axes": 3}, "show: axes must be axes of Matplotlib or an array of them, got 3"),
        ({"x": X.to_sparse()}, r"show: a tensor must be dense and have values, got torch\.sparse"),
        ({"x": X.to("meta")}, "show: a tensor must be dense and have values, got meta"),
        ({"x": 3}, "show: x must be a tensor, an array, a sequence or a mapping of them, got"),
        ({"x": "head"}, "show: x must be a tensor, an array, a sequence or a mapping of them"),
        ({"x": ["head"]}, "show: an array must have numbers, got <U4"),
    ],
)
def test_what_is_of_another_kind_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        show(**arguments)  # type: ignore[arg-type]


def test_titles_are_shown_as_text() -> None:
    titles = [title for title, _ in drawn(show({1: X, 2.5: X}))]  # type: ignore[dict-item]
    assert titles == ["1", "2.5"]


def test_max_panels_is_an_integer() -> None:
    with pytest.raises(TypeError, match="max_panels must be an integer"):
        show(X, max_panels=2.5)  # type: ignore[arg-type]
