"""A flag of a public function or class must be True or False: "no" would be true."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from linops_core import FFT, Add, Concat, Diagonal, HStack
from linops_solvers import lsqr
from nameddim import get_nd_shape

PACKAGES = (
    "nameddim memmap linops_core linops_solvers linops_imaging linops_split linops_multigpu "
    "linops_distributed torchlinops.recon"
).split()
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
ELSEWHERE = {
    "progress": "the loop of all solvers checks it",
    "threaded": "the base of compositions with threads checks it",
    "kspace": "nameddim imports no package, and checks it itself",
    "complex_channels": "deepinv must be installed",
    "is_back": "only linops-core calls the method",
    "is_output": "only linops-solvers calls the method",
    "is_new": "only memmap.borrow calls the method",
    "pack": "it may also be 'close'",
    "persistent": "torch takes it",
    "remove_duplicate": "torch takes it",
}

MADE_BY_US = {"Action", "Link", "Space"}


def public_modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        yield importlib.import_module(package)
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if "._" not in module.name and "testing" not in module.name:
                yield importlib.import_module(module.name)


def functions() -> Iterator[Callable[..., object]]:
    """Yield each public function and method, except those of values that only we make."""
    for module in public_modules():
        for value in [getattr(module, name) for name in getattr(module, "__all__", ())]:
            if inspect.isfunction(value):
                yield value
            elif inspect.isclass(value) and value.__name__ not in MADE_BY_US:
                if dataclasses.is_dataclass(value):
                    yield value
                    continue
                methods = filter(inspect.isfunction, vars(value).values())
                yield from (f for f in methods if f.__name__ == "__init__" or f.__name__[0] != "_")


FLAGS = {
    f"{function.__qualname__}-{name}": (function, name)
    for function in functions()
    for name, parameter in inspect.signature(function).parameters.items()
    if isinstance(parameter.default, bool) and not {name, function.__qualname__} & {*ELSEWHERE}
}


@pytest.mark.parametrize("case", FLAGS)
def test_a_flag_is_checked_before_all_else(case: str) -> None:
    function, flag = FLAGS[case]
    needed = [
        None
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind <= POSITIONAL
    ]
    with pytest.raises(TypeError, match=f": {flag} must be True or False, got 'no'"):
        function(*needed, **{flag: "no"})


def test_flags_that_are_checked_elsewhere() -> None:
    A, x = Diagonal(torch.ones(2), ("N",)), torch.ones(2)
    calls: list[Callable[..., object]] = [
        lambda flag: lsqr(A, x, progress=flag),
        lambda flag: Add(A, A, threaded=flag),
        lambda flag: HStack(A, A, threaded=flag),
        lambda flag: Concat(A, A, idim="N", threaded=flag),
        lambda flag: get_nd_shape(2, kspace=flag),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="must be True or False, got 'no'"):
            call("no")
    of_numpy: Any = np.bool_(True)
    assert FFT(1, centered=of_numpy).centered
