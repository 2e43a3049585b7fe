"""What every test folder shares: hypothesis profiles, GPU skips, tested documents, no empty run."""

import re
from collections.abc import Generator
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
    max_examples=25,
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("default"), max_examples=2000, derandomize=False
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
COMPILER_LAWS = "linops_core.testing._laws._compiler"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave compilers to one operator of each file, and skip what needs GPUs that are not there."""
    if settings.get_current_profile_name() == "default":
        leave_out_slow_laws(config, items)
    skip_without_gpus(items)


def leave_out_slow_laws(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the laws of torch.compile for the first class of each file: each takes seconds.

    A file tests one operator; the other classes are tiles and variants of it. The thorough run
    compiles them all, and so does a run that names a class.
    """
    first: dict[object, object] = {}
    slow = []
    for item in items:
        function, cls = getattr(item, "function", None), getattr(item, "cls", None)
        if cls is None or function is None or function.__module__ != COMPILER_LAWS:
            continue
        if first.setdefault(item.path, cls) is not cls:
            slow.append(item)
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in {*slow}]


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
