"""Importing a package changes nothing outside it: the state of the process before and after.

Each import is in a process of its own: a fork of one in which torch and NumPy are imported.
"""

import atexit
import builtins
import contextlib
import copyreg
import faulthandler
import gc
import io
import json
import locale
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeAlias

import numpy
import pytest
import torch
import torch.nn.modules.module as torch_module
import torch.optim.optimizer as torch_optimizer
import torch.overrides
import torch.utils._pytree

PACKAGES = [
    "nameddim",
    "memmap",
    "linops_core",
    "linops_solvers",
    "linops_imaging",
    "linops_split",
    "linops_multigpu",
    "linops_distributed",
    "torchlinops",
]
Changes: TypeAlias = Callable[[str], dict[str, list[str]]]
MODULES = [
    *("memmap.borrow", "memmap.dataflow", "linops_core.config", "linops_core.siblings"),
    *(
        "linops_multigpu.testing",
        "linops_distributed.testing",
        "torchlinops.alg",
        "torchlinops.linops",
        "torchlinops.testing",
    ),
]


def named(owner: Any, prefix: str) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if name.startswith(prefix)}


def registrations() -> Iterator[str]:
    """Return the operators that torch knows, and what implements them.

    One of our own is there from import on, as loaded programs name it.
    """
    own = "linops_imaging::non_uniform_transform"
    yield from (name for name in torch._C._dispatch_get_all_op_names() if name != own)
    for key in ("CPU", "PrivateUse1", "AutogradPrivateUse1", "CompositeImplicitAutograd", "Meta"):
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
            if name != own:
                yield f"{key} {name}"


def loggers() -> Iterator[tuple[object, ...]]:
    known = [logger for logger in logging.root.manager.loggerDict.values()]
    for logger in (logging.root, *known):
        if isinstance(logger, logging.Logger) and (logger.handlers or logger.filters):
            yield logger.name, "handlers", [*logger.handlers, *logger.filters]
        if isinstance(logger, logging.Logger) and (logger.level or not logger.propagate):
            yield logger.name, "level", logger.level, logger.propagate
    yield logging.getLoggerClass(), logging.root.manager.disable, logging.getLogRecordFactory()


def attributes() -> Iterator[tuple[str, str, int]]:
    """Return what others could have replaced; not modules, of which more may be imported."""
    owners: list[Any] = [torch, torch.Tensor, torch.nn.Module, torch.nn.Parameter, builtins, numpy]
    owners += [torch.nn.functional, torch.optim.Optimizer, torch.autograd, torch.Generator, gc, sys]
    owners += [torch.utils.data, torch.linalg, torch.fft, os, threading.Thread, copyreg, warnings]
    for owner in owners:
        for name, value in vars(owner).items():
            if callable(value):
                yield owner.__name__, name, id(value)


STATE: dict[str, Callable[[], Any]] = {
    "warning filters": lambda: warnings.filters,
    "hooks of optimizers": lambda: {
        n: v for n, v in vars(torch_optimizer).items() if "_hooks" in n
    },
    "hooks of modules": lambda: {
        n: v for n, v in vars(torch_module).items() if n[:8] == "_global_"
    },
    "functions at exit": atexit._ncallbacks,
    "environment": lambda: dict(os.environ),
    "working directory": os.getcwd,
    "threads of torch": lambda: (torch.get_num_threads(), torch.get_num_interop_threads()),
    "threads": lambda: threading.active_count(),
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "gradient mode": lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
    "anomaly mode": torch.is_anomaly_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "precision of products": torch.get_float32_matmul_precision,
    "denormal numbers": lambda: (
        torch.tensor([1e-310], dtype=torch.float64, device="cpu").mul(1).tolist()
    ),
    "modes of torch": lambda: (
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
    ),
    "operators of torch": registrations,
    "name of the private device": torch._C._get_privateuse1_backend_name,
    "printing of tensors": lambda: vars(torch._tensor_str.PRINT_OPTS),
    "printing of arrays": numpy.get_printoptions,
    "errors of NumPy": lambda: (numpy.geterr(), numpy.geterrcall()),
    "loading of tensors": lambda: (
        torch.serialization._package_registry,
        torch.serialization.get_safe_globals(),
    ),
    "nodes of trees": lambda: torch.utils._pytree.SUPPORTED_NODES,
    "import hooks": lambda: (sys.meta_path, sys.path_hooks),
    "import path": lambda: sys.path,
    "hooks of the interpreter": lambda: (
        *(sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        *(sys.gettrace(), sys.getprofile(), sys.stdout, sys.stderr),
    ),
    "limits of the interpreter": lambda: (sys.getrecursionlimit(), sys.getswitchinterval()),
    "garbage collection": lambda: (gc.isenabled(), gc.get_threshold(), gc.callbacks),
    "signal handlers": lambda: [signal.getsignal(number) for number in signal.valid_signals()],
    "fault handler": faulthandler.is_enabled,
    "locale": lambda: locale.setlocale(locale.LC_ALL),
    "logging": loggers,
    "random numbers of Python": random.getstate,
    "random numbers of NumPy": lambda: [str(part) for part in numpy.random.get_state()],
    "random numbers of torch": lambda: torch.random.get_rng_state().tolist(),
    "pickling": lambda: copyreg.dispatch_table,
    "pickling for processes": lambda: ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
    "start of processes": lambda: multiprocessing.get_start_method(allow_none=True),
    "replaced attributes": attributes,
}


def state() -> dict[str, list[str]]:
    """Return everything as texts: of what has no order, in an order of their own."""
    result = {}
    for kind, read in STATE.items():
        value = read()
        if isinstance(value, dict):
            value = value.items()
        is_one = isinstance(value, str) or not isinstance(value, Iterable)
        result[kind] = [repr(value)] if is_one else [repr(part) for part in value]
    return result


def report(statement: str) -> dict[str, list[str]]:
    """Return what a statement changes."""
    before = state()
    exec(statement, {})
    after = state()
    return {
        kind: [
            *(f"- {text}"[:200] for text in before[kind] if text not in after[kind]),
            *(f"+ {text}"[:200] for text in after[kind] if text not in before[kind]),
        ]
        for kind in STATE
        if before[kind] != after[kind]
    }


def serve() -> None:
    """Answer each line, a statement, by what it changes in a fork of this process."""
    for line in sys.stdin:
        if os.fork() == 0:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                try:
                    changes = report(json.loads(line))
                except BaseException as error:
                    changes = {"error": [repr(error)]}
            if printed.getvalue():
                changes["printed"] = [printed.getvalue()]
            print(json.dumps(changes), flush=True)
            os._exit(0)
        os.wait()


@pytest.fixture(scope="module")
def changed_by() -> Iterator[Changes]:
    """Returns what a statement changes in a process in which it is run first."""
    run = f"import runpy; runpy.run_path({__file__!r})['serve']()"
    with subprocess.Popen(
        [sys.executable, "-c", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        answers = process.stdout

        def ask(statement: str) -> dict[str, list[str]]:
            print(json.dumps(statement), file=process.stdin, flush=True)
            changes: dict[str, list[str]] = json.loads(answers.readline())
            return changes

        yield ask
        process.stdin.close()


@pytest.mark.parametrize("module", [*PACKAGES, *MODULES])
def test_importing_changes_nothing(module: str, changed_by: Changes) -> None:
    assert changed_by(f"import {module}") == {}


def test_a_program_finds_our_operation_after_an_import(changed_by: Changes) -> None:
    statement = "import linops_imaging, torch; torch.ops.linops_imaging.non_uniform_transform"
    assert changed_by(statement) == {}


VIOLATIONS = {
    "warning filters": "import warnings; warnings.simplefilter('ignore')",
    "hooks of optimizers": "import torch.optim.optimizer as o; "
    "o.register_optimizer_step_post_hook(print)",
    "hooks of modules": "import torch.nn.modules.module as m; "
    "m.register_module_forward_hook(print)",
    "functions at exit": "import atexit; atexit.register(int)",
    "environment": "import os; os.environ['OMP_NUM_THREADS_OF_NOBODY'] = '1'",
    "working directory": "import os; os.chdir('/')",
    "threads of torch": "import torch; torch.set_num_threads(torch.get_num_threads() + 1)",
    "threads": "import threading, time; threading.Thread(target=time.sleep, args=(1,)).start()",
    "default dtype": "import torch; torch.set_default_dtype(torch.float64)",
    "default device": "import torch; torch.set_default_device('meta')",
    "gradient mode": "import torch; torch.set_grad_enabled(False)",
    "anomaly mode": "import torch; torch.autograd.set_detect_anomaly(True)",
    "deterministic algorithms": "import torch; torch._C._set_deterministic_algorithms(True)",
    "precision of products": "import torch; torch.set_float32_matmul_precision('medium')",
    "denormal numbers": "import torch; torch.set_flush_denormal(True)",
    "modes of torch": "import torch; torch.overrides.BaseTorchFunctionMode().__enter__()",
    "operators of torch": "import torch; L = torch.library.Library('nobody', 'DEF'); "
    "torch.nobodys_library = L; L.define('nothing(Tensor x) -> Tensor')",
    "name of the private device": "import torch; torch.utils.rename_privateuse1_backend('nobody')",
    "printing of tensors": "import torch; torch.set_printoptions(precision=2)",
    "printing of arrays": "import numpy; numpy.set_printoptions(precision=2)",
    "errors of NumPy": "import numpy; numpy.seterr(all='raise')",
    "loading of tensors": "import torch; torch.serialization.add_safe_globals([print])",
    "nodes of trees": "import torch.utils._pytree as t; t.register_pytree_node("
    "range, lambda r: (list(r), None), lambda r, c: r)",
    "import hooks": "import sys; sys.meta_path.insert(0, type('F', (), {'find_spec': print}))",
    "import path": "import sys; sys.path.append('nowhere')",
    "hooks of the interpreter": "import sys; sys.excepthook = print",
    "limits of the interpreter": "import sys; sys.setrecursionlimit(5000)",
    "garbage collection": "import gc; gc.set_threshold(1234)",
    "signal handlers": "import signal; signal.signal(signal.SIGINT, print)",
    "fault handler": "import faulthandler, sys; faulthandler.enable(sys.__stderr__)",
    "locale": "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8' "
    "if locale.setlocale(locale.LC_ALL) == 'C' else 'C')",
    "logging": "import logging; logging.getLogger('torch').addHandler(logging.NullHandler())",
    "random numbers of Python": "import random; random.random()",
    "random numbers of NumPy": "import numpy; numpy.random.rand()",
    "random numbers of torch": "import torch; torch.rand(1)",
    "pickling": "import copyreg; copyreg.pickle(range, lambda r: (range, (3,)))",
    "pickling for processes": "from multiprocessing.reduction import ForkingPickler; "
    "ForkingPickler.register(range, lambda r: (range, (3,)))",
    "start of processes": "import multiprocessing; multiprocessing.set_start_method('spawn')",
    "replaced attributes": "import torch; torch.Tensor.__add__ = torch.Tensor.__sub__",
}


def test_each_kind_of_state_has_a_violation() -> None:
    assert VIOLATIONS.keys() == STATE.keys()


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_a_violation_is_seen(kind: str, changed_by: Changes) -> None:
    assert kind in changed_by(VIOLATIONS[kind])


@pytest.mark.parametrize(
    "statement",
    [
        "import logging; logging.basicConfig()",
        "import logging; logging.getLogger('linops_core').setLevel('DEBUG')",
        "import logging; logging.getLogger('linops_core').addFilter(print)",
        "import logging; logging.disable()",
    ],
)
def test_every_setting_of_loggers_is_seen(statement: str, changed_by: Changes) -> None:
    assert [*changed_by(statement)] == ["logging"]


def test_what_is_printed_and_raised_is_seen(changed_by: Changes) -> None:
    assert changed_by("print('hello')") == {"printed": ["hello\n"]}
    assert changed_by("raise ValueError('no')") == {"error": ["ValueError('no')"]}
