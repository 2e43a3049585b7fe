import math
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from linops_imaging import FanBeam, ParallelBeam
from linops_imaging._xray import _beams, _joseph, _many_images, _symmetry
from linops_imaging._xray._joseph import back_projection, line_integrals
from linops_imaging._xray._rays import Beam
from linops_imaging._xray._symmetry import (
    _shared_views,
    back_projection_by_symmetry,
    line_integrals_by_symmetry,
)

Sizes = tuple[int, int]
TURNS = torch.arange(4, dtype=torch.float64) * math.pi / 2


def beam_of(angles: Tensor, is_fan: bool, sizes: Sizes, offset: float = 0.0) -> Beam:
    if is_fan:
        return FanBeam(angles, 7, sizes, 9.0, 4.0, 1.1, detector_offset=offset).beam()
    return ParallelBeam(angles, 7, sizes, 0.9, detector_offset=offset).beam()


def n_shared(beam: Beam, n_images: int, sizes: Sizes, dtype: torch.dtype) -> int | None:
    """Return how many views are computed instead of all, None where all are."""
    shared = _shared_views(beam, torch.zeros(n_images, 1, dtype=dtype), sizes)
    return None if shared is None else len(shared.angles)


def there_one_by_one(x: Tensor, beam: Beam) -> Tensor:
    """Return the line integrals of each image at each angle by itself."""
    views = [beam._replace(angles=angle) for angle in beam.angles.split(1)]
    return torch.cat([torch.cat([line_integrals(one, v) for v in views], 1) for one in x.split(1)])


def back_one_by_one(y: Tensor, beam: Beam, sizes: Sizes) -> Tensor:
    """Return the back projection for each image, added up over each angle by itself."""
    images = y.new_zeros(len(y), *sizes)
    for number, angle in enumerate(beam.angles.split(1)):
        line = y[:, number : number + 1]
        view = beam._replace(angles=angle)
        images += torch.cat([back_projection(one, view, sizes) for one in line.split(1)])
    return images


@given(
    first=st.lists(st.floats(0, math.pi / 2), min_size=1, max_size=3),
    is_fan=st.booleans(),
    sizes=st.sampled_from([(5, 5), (4, 4), (4, 5), (6, 3)]),
    n_images=st.sampled_from([1, 2, 3, 5]),
    order=st.permutations(range(8)),
    offset=st.sampled_from([0.0, 0.7]),
)
def test_shared_views_are_those_computed_one_by_one(
    first: list[float],
    is_fan: bool,
    sizes: Sizes,
    n_images: int,
    order: list[int],
    offset: float,
) -> None:
    theta = torch.tensor(first, dtype=torch.float64).unsqueeze(1)
    angles = torch.cat([TURNS + theta, TURNS - theta], 1)[:, order].flatten()
    beam = beam_of(angles, is_fan, sizes, offset)
    x = torch.randn(n_images, *sizes, dtype=torch.float64)
    y = torch.randn(n_images, len(angles), 7, dtype=torch.float64)
    n = n_shared(beam, n_images, sizes, torch.float64)
    n_kinds = (1 if sizes[0] == sizes[1] else 2) * (2 if offset else 1)
    assert n is not None and n <= len(first) * n_kinds
    torch.testing.assert_close(
        line_integrals_by_symmetry(x, beam), there_one_by_one(x, beam), atol=1e-12, rtol=0
    )
    expected = back_one_by_one(y, beam, sizes)
    torch.testing.assert_close(
        back_projection_by_symmetry(y, beam, sizes), expected, atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("is_fan", [False, True])
@pytest.mark.parametrize("sizes", [(9, 9), (7, 9), (9, 6)])
@pytest.mark.parametrize("n_images", [1, 5])
@pytest.mark.parametrize("share", [False, True])
def test_rows_of_pixels_may_be_taken_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch, is_fan: bool, sizes: Sizes, n_images: int, share: bool
) -> None:
    angles = torch.tensor([0.3, 1.1, 2.0])
    if share:
        angles = torch.cat([angles, -angles, angles + math.pi, math.pi - angles])
    beam = beam_of(angles, is_fan, sizes)
    x, y = torch.randn(n_images, *sizes), torch.randn(n_images, len(beam.angles), 7)
    assert (n_shared(beam, n_images, sizes, x.dtype) is not None) == share
    expected = line_integrals_by_symmetry(x, beam), back_projection_by_symmetry(y, beam, sizes)
    for module, limit in (
        (_joseph, "_BYTES"),
        (_many_images, "_BYTES"),
        (_many_images, "_ROOM"),
    ):
        monkeypatch.setattr(module, limit, 0)
    if not share:
        n_rows = max(sizes)
        monkeypatch.setattr(_joseph, "rows_at_once", lambda *_: n_rows // 2)
    result = line_integrals_by_symmetry(x, beam), back_projection_by_symmetry(y, beam, sizes)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("is_fan", [False, True])
@pytest.mark.parametrize("sizes", [(9, 9), (7, 9), (9, 6)])
@pytest.mark.parametrize("n_views", [2, 3, 8])
def test_views_may_be_taken_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch, is_fan: bool, sizes: Sizes, n_views: int
) -> None:
    first = torch.tensor([0.3, 1.1, 2.0], dtype=torch.float64)
    angles = torch.cat([first, -first, first + math.pi]).requires_grad_()
    beam = beam_of(angles, is_fan, sizes)
    x, y = torch.randn(2, *sizes).double(), torch.randn(2, 9, 7).double()

    def values_and_gradients() -> list[Tensor]:
        functions = line_integrals_by_symmetry(x, beam), back_projection_by_symmetry(y, beam, sizes)
        gradients = [torch.autograd.grad(f.square().sum(), angles)[0] for f in functions]
        constant = beam._replace(angles=angles.detach())
        return [
            *functions,
            *gradients,
            line_integrals_by_symmetry(x, constant),
            back_projection_by_symmetry(y, constant, sizes),
        ]

    expected = values_and_gradients()
    monkeypatch.setattr(_joseph, "views_at_once", lambda *_: n_views)
    monkeypatch.setattr(_beams, "tables_at_once", lambda _: n_views)
    monkeypatch.setattr(_symmetry, "tables_at_once", lambda _: n_views)
    torch.testing.assert_close(values_and_gradients(), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("size", [100, 40_000, 2**20])
def test_indices_of_rows_fit_32_bits(size: int) -> None:
    width = size + 3
    n_rows = _joseph.rows_at_once(2 * size * size, 2 * width, torch.float32)
    assert 1 <= n_rows and 2 * n_rows * width < 2**31


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_poses_are_not_in_memory_at_once(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    largest = [0]

    class Largest(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                n = result.untyped_storage().nbytes() // result.itemsize
                largest[0] = max(largest[0], n)
            return result

    for module, limit in (
        (_joseph, "_BYTES"),
        (_many_images, "_BYTES"),
        (_many_images, "_ROOM"),
    ):
        monkeypatch.setattr(module, limit, 0)
    n = 64
    A = ParallelBeam(torch.arange(8, dtype=dtype) * math.pi / 8, 7, n, batch_shape=())
    x, y = torch.randn(n, n, dtype=dtype), torch.randn(8, 7, dtype=dtype)
    for linop, values in ((A, x), (A.H, y)):
        largest[0] = 0
        with torch.no_grad(), Largest():  # type: ignore[no-untyped-call]
            linop(values)
        assert n * n / 2 <= largest[0] <= 2 * (n + 3) ** 2  # with zeros about the images


@pytest.mark.parametrize("is_fan", [False, True])
@pytest.mark.parametrize("is_adjoint", [False, True])
def test_results_of_views_are_not_kept(is_fan: bool, is_adjoint: bool) -> None:
    """Each would pin the heap above the large temporary tensors of its view: GiB at 724 x 724."""
    made: dict[int, weakref.ref[torch.UntypedStorage]] = {}
    most = [0]

    class Kept(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                storage = result.untyped_storage()
                made[storage._cdata] = weakref.ref(storage)
                most[0] = max(most[0], sum(storage() is not None for storage in made.values()))
            return result

    def n_kept(n_views: int) -> int:
        beam = beam_of(math.sqrt(2) * torch.arange(n_views).double(), is_fan, (9, 9))
        values = torch.ones(1, *((n_views, 7) if is_adjoint else (9, 9)), dtype=torch.float64)
        made.clear()
        most[0] = 0
        with torch.no_grad(), Kept():  # type: ignore[no-untyped-call]
            back_projection_by_symmetry(
                values, beam, (9, 9)
            ) if is_adjoint else line_integrals_by_symmetry(values, beam)
        return most[0]

    assert n_kept(64) <= n_kept(32) + 4


@pytest.mark.parametrize("is_fan", [False, True])
@pytest.mark.parametrize("n_images", [1, 3, 4, 16, 19])
@pytest.mark.parametrize("n_threads", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_images_or_threads_give_what_one_image_gives(
    monkeypatch: pytest.MonkeyPatch,
    is_fan: bool,
    n_images: int,
    n_threads: int,
    dtype: torch.dtype,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    sizes = (6, 7)
    beam = beam_of(torch.tensor([0.3, 1.1, 2.0], dtype=dtype), is_fan, sizes)
    x, y = torch.randn(n_images, *sizes, dtype=dtype), torch.randn(n_images, 3, 7, dtype=dtype)
    assert n_shared(beam, n_images, sizes, dtype) is None
    expected = there_one_by_one(x, beam), back_one_by_one(y, beam, sizes)
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    result = line_integrals_by_symmetry(x, beam), back_projection_by_symmetry(y, beam, sizes)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(result, expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equally_spaced_angles_have_few_views(dtype: torch.dtype) -> None:
    half = torch.arange(180, dtype=dtype) * math.pi / 180
    whole = torch.linspace(0, 2 * math.pi, 361, dtype=dtype)  # both ends are one view
    for angles, square, others in ((half, 46, 91), (whole, 46, 91)):
        for sizes, n in (((8, 8), square), ((8, 9), others)):
            assert n_shared(beam_of(angles, False, sizes), 1, sizes, dtype) == n


def test_no_views_are_shared_where_the_axis_of_rotation_is_not_in_the_middle() -> None:
    angles = torch.cat([TURNS + 0.3, TURNS - 0.3])
    beam = ParallelBeam(angles, 7, 6, origin=(3, 3)).beam()
    assert n_shared(beam, 1, (6, 6), torch.float64) is None


def test_views_are_shared_where_that_saves_steps_and_memory() -> None:
    angles = torch.rand(200, generator=torch.Generator().manual_seed(0)) * 2 * math.pi
    assert n_shared(beam_of(angles, False, (8, 8)), 1, (8, 8), torch.float32) is None
    # Of each pair of angles 8 poses would be computed, and 2 used.
    angles = angles.double()
    pairs = torch.cat([angles, angles + math.pi / 2])
    assert n_shared(beam_of(pairs, False, (8, 8)), 1, (8, 8), torch.float64) is not None
    assert n_shared(beam_of(pairs, False, (8, 8)), 16, (8, 8), torch.float64) is None
    even = ParallelBeam(torch.arange(180) * math.pi / 180, 7, 4096).beam()
    assert n_shared(even, 1, (4096, 4096), torch.float32) is None


def test_angles_are_one_up_to_rounding_of_the_result() -> None:
    exact = math.pi / 2 - 0.3
    for other, dtype, n in (
        (exact, torch.float64, 1),
        (exact + 1e-13, torch.float64, None),
        (exact + 1e-7, torch.float32, 1),
        (exact + 1e-5, torch.float32, None),
        (exact + 2e6 * math.pi, torch.float64, None),  # whose rest has few digits
        (math.nan, torch.float64, None),
    ):
        angles = torch.tensor([0.3, other], dtype=torch.float64)
        assert n_shared(beam_of(angles, False, (5, 5)), 1, (5, 5), dtype) == n
    # A chain of neighbours is not one angle.
    chain = 0.3 + torch.arange(50, dtype=torch.float64) * 3e-7
    assert n_shared(beam_of(chain, False, (5, 5)), 1, (5, 5), torch.float32) is None


def test_images_of_double_precision_have_the_angles_as_they_are() -> None:
    angles = torch.arange(1, 9) * math.pi / 9
    x = torch.randn(5, 5, dtype=torch.float64)
    A = ParallelBeam(angles, 7, 5, 0.9)
    expected = there_one_by_one(x[None], A.beam()._replace(angles=angles.double()))[0]
    torch.testing.assert_close(A(x), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_gradients_of_shared_views_are_the_adjoint(dtype: torch.dtype) -> None:
    A = ParallelBeam(torch.arange(8, dtype=torch.float64) * math.pi / 8, 5, 3)
    x = torch.randn(2, 3, 3, dtype=dtype, requires_grad=True)
    assert torch.autograd.gradcheck(A, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(A, x, fast_mode=True)
    rows = torch.autograd.functional.jacobian(A, x.detach().real, vectorize=True)
    torch.testing.assert_close(rows.sum((0, 1, 2)), A.H(torch.ones(2, 8, 5, dtype=torch.float64)))


def test_gradients_reach_the_angles_of_shared_views() -> None:
    angles = (torch.arange(4, dtype=torch.float64) * math.pi / 2 + 0.4).requires_grad_()
    x, y = torch.randn(2, 5, 3, 3, dtype=torch.float64)[0], torch.randn(5, 4, 5).double()

    def both(angles: Tensor) -> tuple[Tensor, Tensor]:
        A = ParallelBeam(angles, 5, 3, 0.9)
        return A(x), A.H(y)

    assert torch.autograd.gradcheck(both, angles, fast_mode=True)
    with torch.no_grad():
        result = both(angles)
    for one, other in zip(both(angles), result, strict=True):
        torch.testing.assert_close(one, other)


def test_transforms_and_compilers_compute_all_views() -> None:
    A = ParallelBeam(torch.arange(8, dtype=torch.float64) * math.pi / 8, 5, 3)
    x = torch.randn(5, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(A)(x), A(x))
    torch.testing.assert_close(torch.compile(A, backend="eager", fullgraph=True)(x), A(x))


def test_exported_programs_take_any_number_of_images() -> None:
    angle = torch.tensor([0.3], dtype=torch.float64)
    dims = {"x": {0: torch.export.Dim("batch", min=1, max=64)}}
    pairs = ((ParallelBeam(angle, 5, (4, 3)), (4, 3)), (FanBeam(angle, 5, 3, 9.0, 4.0).H, (1, 5)))
    for A, sizes in pairs:
        x = torch.randn(40, *sizes, dtype=torch.float64)
        program = torch.export.export(A, (x[:3],), dynamic_shapes=dims, strict=False).module()
        for n in (1, 4, 40):
            torch.testing.assert_close(program(x[:n]), A(x[:n]))
