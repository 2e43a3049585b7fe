import threading
from collections.abc import Iterator
from contextvars import copy_context
from types import ModuleType
from unittest import mock

import pytest

import linops_core.config as config

NAMES = ["cache_adjoint_normal", "reduce_identity_in_normal"]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = [getattr(config, name) for name in NAMES]
    yield
    for name, value in zip(NAMES, before, strict=True):
        setattr(config, name, value)


def values() -> list[bool]:
    return [getattr(config, name) for name in NAMES]


def elsewhere() -> list[bool]:
    """Return what another thread reads."""
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.extend(values()))
    thread.start()
    thread.join()
    return results


def test_it_is_a_module_whose_settings_are_on_and_listed() -> None:
    assert isinstance(config, ModuleType)
    assert values() == [True, True]
    assert {*NAMES, "using"} <= {*dir(config)}
    assert {*config.__all__} == {*NAMES, "using"}


@pytest.mark.parametrize("name", NAMES)
def test_an_assignment_holds_in_all_threads(name: str) -> None:
    setattr(config, name, False)
    assert getattr(config, name) is False
    assert elsewhere() == values() == [other != name for other in NAMES]


def test_a_block_holds_here_until_it_ends_and_in_no_other_thread() -> None:
    with config.using(cache_adjoint_normal=False):
        assert values() == [False, True]
        assert elsewhere() == [True, True]
        assert copy_context().run(values) == [False, True]
        with config.using(cache_adjoint_normal=True, reduce_identity_in_normal=False):
            assert values() == [True, False]
        assert values() == [False, True]
    assert values() == [True, True]


def test_a_block_goes_before_an_assignment_which_is_there_when_it_ends() -> None:
    with config.using(cache_adjoint_normal=True):
        config.cache_adjoint_normal = False
        assert config.cache_adjoint_normal is True
        assert elsewhere() == [False, True]
    assert config.cache_adjoint_normal is False


def test_a_block_that_fails_is_left_like_any_other() -> None:
    with pytest.raises(KeyError), config.using(cache_adjoint_normal=False):
        raise KeyError
    assert values() == [True, True]


def test_a_function_can_be_decorated() -> None:
    @config.using(reduce_identity_in_normal=False)
    def inside() -> list[bool]:
        return values()

    assert inside() == inside() == [True, False]
    assert values() == [True, True]


@pytest.mark.parametrize("assigned", [True, False])
def test_a_patch_by_a_test_holds_and_undoes_itself(assigned: bool) -> None:
    config.cache_adjoint_normal = assigned
    with mock.patch("linops_core.config.cache_adjoint_normal", not assigned):
        assert values() == elsewhere() == [not assigned, True]
    assert values() == elsewhere() == [assigned, True]
    with config.using(cache_adjoint_normal=not assigned):
        with mock.patch.object(config, "cache_adjoint_normal", not assigned):
            assert elsewhere() == [not assigned, True]
        assert values() == [not assigned, True]
    assert values() == elsewhere() == [assigned, True], "what held in the block is put nowhere else"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "cache_adjoint_normal", not assigned)
        assert values() == [not assigned, True]
    assert values() == [assigned, True]


def test_unknown_names_are_refused() -> None:
    rule = r"a setting must be one of cache_adjoint_normal, reduce_identity_in_normal, got 'cache'"
    with pytest.raises(TypeError, match="using: " + rule), config.using(cache=True):
        pass
    with pytest.raises(AttributeError, match="config: " + rule):
        config.cache = True  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"module 'linops_core.config' has no attribute 'ca"):
        config.cache  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(AttributeError, match=r"config: cache_adjoint_normal cannot be deleted"):
        del config.cache_adjoint_normal


@pytest.mark.parametrize("value", [1, None, "False"])
def test_a_value_must_be_a_bool(value: object) -> None:
    message = rf"config: cache_adjoint_normal must be True or False, got {value!r}"
    with pytest.raises(TypeError, match=message):
        config.cache_adjoint_normal = value  # type: ignore[assignment]
    with (
        pytest.raises(TypeError, match=message),
        config.using(cache_adjoint_normal=value),  # type: ignore[arg-type]
    ):
        pass
    assert values() == [True, True]
