"""What every test folder shares: hypothesis profiles, GPU skips, tested documents, no empty run."""

import gc
import re
from collections.abc import Generator, Iterator
from contextlib import redirect_stdout
from doctest import ELLIPSIS, OutputChecker
from io import StringIO

import pytest
from hypothesis import HealthCheck, settings
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

# The same examples in every run and on every machine. Hypothesis has other defaults where it sees
# CI, so each setting that they change is given. How long an example takes depends on the machine.
settings.register_profile(
    "default",
    max_examples=16,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("default"), max_examples=200, derandomize=False
)
settings.load_profile("default")  # `pytest --hypothesis-profile=thorough` loads the other one

OUTPUT_BELOW = re.compile(r"\s*```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class ShowingEvaluator(PythonEvaluator):
    """Run a ```python block; what it prints must be shown in a ```text block right below it.

    In the text, ``...`` stands for anything, as in a doctest.
    """

    def __call__(self, example: Example) -> None:
        with redirect_stdout(StringIO()) as printed:
            super().__call__(example)
        below = OUTPUT_BELOW.match(example.document.text, example.region.end)
        shown = below[1] if below else ""
        if not OutputChecker().check_output(shown, printed.getvalue(), ELLIPSIS):
            raise AssertionError(
                "what a block prints must be shown below it, in a block ```text: "
                f"it prints\n{printed.getvalue()}\nand the page shows\n{shown or 'nothing'}"
            )


class PageParser(PythonCodeBlockParser):
    """Find the ```python blocks; those that begin with ``>>>`` are doctests."""

    def __init__(self) -> None:
        super().__init__()
        self.codeblock_parser = CodeBlockParser("python", ShowingEvaluator())


# The ```python blocks of a README or a page are tests: one namespace a file, from top to bottom.
pytest_collect_file = Sybil(
    parsers=[PageParser(), SkipParser()],
    patterns=["README.md", "CONTRIBUTING.md", "docs/*.md", "docs/**/*.md"],
).pytest()

collect_ignore_glob = [
    "docs/*.py",
    "docs/_build",
    "docs/_extensions",
    "docs/gallery",
]  # Sphinx's, not ours to test

GPUS_NEEDED = {"gpu": 1, "multigpu": 2}
LAW_OF_GPUS = "test_an_accelerator_gives_the_same_values"
LAWS = "linops_core.testing._laws."
FEW_STEPS = "ignore:.* the result must be within its tolerance:RuntimeWarning"
LAW_OF_DATA = "test_an_operator_and_its_results_are_where_its_data_are"
FIRST_COMPILER_LAW = "test_it_compiles_to_one_graph"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the law of GPUs: users inherit it, and their runs do not know our marks.

    Tests of solvers do few steps, of which only ``pytest.warns`` hears.
    """
    if "linops-solvers" in item.path.parts or "solvers" in item.path.stem:
        item.add_marker(pytest.mark.filterwarnings(FEW_STEPS))
    if law_of(item)[1] == LAW_OF_GPUS:
        item.add_marker("gpu")


@pytest.hookimpl(trylast=True)  # of what -k and -m select
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow laws, laws of variants, and combinations; skip what needs GPUs."""
    if settings.get_current_profile_name() == "default":
        leave_out_laws(config, items)
        leave_out_combinations(config, items)
    skip_without_gpus(items)


def leave_out_laws(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run few laws of torch.compile, which take seconds, and of variants those of their matrix.

    A variant is an operator of the class above with other arguments, or a tile of it. A run of
    several files compiles an operator of each, and marked ones with their gradients and within
    other functions. The thorough run has all laws, and so does a run of a class that is named.
    """
    laws = [item for item in items if law_of(item)[0].startswith(LAWS)]
    classes = {class_of(item) for item in laws}
    first: dict[object, object] = {}
    for item in laws:
        first.setdefault(item.path, class_of(item))

    def is_left_out(item: pytest.Item) -> bool:
        module, name = law_of(item)
        if module == LAWS + "_compiler":
            is_rare = name != FIRST_COMPILER_LAW and not item.get_closest_marker("compiled")
            return first[item.path] is not class_of(item) or (len(first) > 1 and is_rare)
        is_variant = len(classes) > 1 and item.get_closest_marker("variant")
        return bool(is_variant) and module != LAWS + "_matrix" and name != LAW_OF_DATA

    leave_out({item for item in laws if is_left_out(item)}, config, items)


def leave_out_combinations(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests that are marked so with each value of each parameter, not with all combinations.

    Those come first of which all values are new. The thorough run has all combinations.
    """
    marked = [item for item in items if item.get_closest_marker("each_value")]
    marked.sort(key=lambda item: item.nodeid)  # so that all runs keep the same ones
    seen: set[object] = set()
    kept: set[pytest.Item] = set()
    for is_first in (True, False):
        for item in marked:
            values = values_of(item)
            if values.isdisjoint(seen) if is_first else not values <= seen:
                seen |= values
                kept.add(item)
    leave_out({*marked} - kept, config, items)


def leave_out(left_out: set[pytest.Item], config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the other tests, and say how many were left out."""
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def values_of(item: pytest.Item) -> set[object]:
    """Return what each mark `parametrize` and each fixture gives a test, or the test itself."""
    test = item.nodeid.partition("[")[0]
    case = getattr(item, "callspec", None)
    params = dict(case.params) if case else {}
    values: set[object] = set()
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        values.add((test, *names, *(id(params.pop(name.strip())) for name in names)))
    values.update((test, name, id(value)) for name, value in params.items())
    return values or {test}


def law_of(item: pytest.Item) -> tuple[str, str]:
    """Return the module and the name of the function of a test."""
    function = getattr(item, "function", None)
    return getattr(function, "__module__", ""), getattr(function, "__name__", "")


def class_of(item: pytest.Item) -> object:
    """Return the class that a test is in, or None."""
    return getattr(item, "cls", None)


def pytest_collection_finish() -> None:
    """Keep the modules that were imported out of each later search for garbage: it is faster."""
    gc.collect()
    gc.freeze()


def skip_without_gpus(items: list[pytest.Item]) -> None:
    """Skip the tests that need more GPUs than there are, and say so."""
    marked = [
        (item, needed)
        for item in items
        for mark, needed in GPUS_NEEDED.items()
        if item.get_closest_marker(mark)
    ]
    if not marked:
        return
    import torch  # here, because the tests of nameddim run without torch

    found = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    for item, needed in marked:
        if found < needed:
            item.add_marker(pytest.mark.skip(reason=f"needs {needed} GPU(s), found {found}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip what needs simulated devices on a machine with real ones, and say so."""
    try:
        return (yield)
    except RuntimeError as error:
        if "simulated: torch must know of no other accelerator" not in str(error):
            raise
        pytest.skip(str(error))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run in which every test was skipped: it proves nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus != pytest.ExitCode.OK or reporter is None or session.config.option.collectonly:
        return
    if not any(reporter.stats.get(kind) for kind in ("passed", "xfailed", "xpassed")):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        reporter.write_line("\nno test was executed: this run counts as failed", red=True)


@pytest.fixture(scope="session")
def torchvision_operators() -> Iterator[None]:
    """DeepInverse imports torchvision, which looks for operators that it brings for GPUs alone."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        yield
