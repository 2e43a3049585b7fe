"""The tests draw the same examples in every run; only the profile `thorough` draws at random."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from linops_core.testing._laws._matrix import MatrixLaws

ROOT = Path(__file__).parents[1]
PRINTS_WHAT_IT_DRAWS = """
import pytest
from hypothesis import given, strategies as st

drawn = []

@given(st.integers())
def test_of_integers(value):
    drawn.append(value)

def test_print():
    print("drawn:", drawn)

@given(st.integers())
def test_that_fails(value):
    assert value < 1000

@pytest.mark.each_value
@pytest.mark.parametrize("one", [0, 1])
@pytest.mark.parametrize(("other", "third"), [(0, 0), (1, 0), (2, 0)])
def test_of_values(one, other, third):
    print("values:", one, other)
"""
AN_OPERATOR_AND_A_VARIANT = """
import pytest
from linops_core import Diagonal
from linops_core.testing import BaseNamedLinopTests

class TestOperator(BaseNamedLinopTests):
    def make_linop(self):
        raise NotImplementedError

@pytest.mark.variant
class TestVariant(TestOperator):
    pass
"""
PLUGINS = ["-p", "no:cacheprovider", "-p", "no:randomly"]
DRAWS_FROM_HYPOTHESIS = re.compile(r"import .*\bfind\b|\.example\(\)|hypothesis\.find")


def run_of(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run tests beside a copy of our conftest."""
    shutil.copy(ROOT / "conftest.py", folder)
    (folder / "test_drawn.py").write_text(PRINTS_WHAT_IT_DRAWS, "utf-8")
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    command = [sys.executable, "-m", "pytest", "-rA", *PLUGINS, *options]
    return subprocess.run(
        [*command, f"--rootdir={folder}", "test_drawn.py"],
        cwd=folder,
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=300,
    )


def examples_drawn(folder: Path, *options: str, **variables: str) -> str:
    """Run tests, and return the examples that they drew."""
    run = run_of(folder, *options, **variables)
    values = re.findall("^values: (.*)$", run.stdout, re.MULTILINE)
    assert values == (
        ["0 0", "1 0", "0 1", "1 1", "0 2", "1 2"]
        if "--hypothesis-profile=thorough" in options
        else ["0 0", "1 1", "0 2"]
    )
    assert f"1 failed, {2 + len(values)} passed" in run.stdout, run.stdout + run.stderr
    (drawn,) = re.finditer("^drawn: (.*)$", run.stdout, re.MULTILINE)
    return drawn[1]


def test_every_run_draws_the_same_examples_at_home_and_in_ci(tmp_path: Path) -> None:
    at_home = examples_drawn(tmp_path)
    assert at_home.count(",") == 15
    assert examples_drawn(tmp_path, CI="1") == at_home
    assert not (tmp_path / ".hypothesis" / "examples").exists(), "a failure must not be stored"


def test_the_thorough_profile_draws_more_and_others_in_each_run(tmp_path: Path) -> None:
    thorough = "--hypothesis-profile=thorough"
    drawn = examples_drawn(tmp_path, thorough)
    assert drawn.count(",") == 199
    assert examples_drawn(tmp_path, thorough) != drawn
    assert not (tmp_path / ".hypothesis" / "examples").exists(), "a failure must not be stored"


def test_a_combination_that_is_named_runs(tmp_path: Path) -> None:
    run = run_of(tmp_path, "-k", "2-0-1")
    assert re.findall("^values: (.*)$", run.stdout, re.MULTILINE) == ["1 2"], run.stdout


def laws_of_each_class(folder: Path, *options: str) -> dict[str, set[str]]:
    """Return the laws that a run has of the operator and of its variant."""
    (folder / "test_laws.py").write_text(AN_OPERATOR_AND_A_VARIANT, "utf-8")
    shutil.copy(ROOT / "conftest.py", folder)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *PLUGINS]
    run = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True)
    result: dict[str, set[str]] = {}
    for kind, law in re.findall(r"^test_laws.py::(\w+)::(\w+)$", run.stdout, re.MULTILINE):
        result.setdefault(kind, set()).add(law)
    return result


def test_a_variant_has_the_laws_of_its_matrix_or_all_if_it_is_named(tmp_path: Path) -> None:
    of_variants = {name for name in vars(MatrixLaws) if name.startswith("test_")}
    of_variants.add("test_an_operator_and_its_results_are_where_its_data_are")
    run = laws_of_each_class(tmp_path)
    assert run["TestVariant"] == of_variants < run["TestOperator"]
    named = laws_of_each_class(tmp_path, "test_laws.py::TestVariant")
    assert named == {"TestVariant": run["TestOperator"]}
    thorough = laws_of_each_class(tmp_path, "--hypothesis-profile=thorough")
    assert thorough == dict.fromkeys(run, run["TestOperator"])


def test_the_profile_of_this_run(pytestconfig: pytest.Config) -> None:
    name = pytestconfig.getoption("--hypothesis-profile") or "default"
    assert settings.get_current_profile_name() == name
    default, thorough = settings.get_profile("default"), settings.get_profile("thorough")
    assert default.derandomize and not thorough.derandomize
    for profile in (default, thorough):
        assert profile.database is None and profile.deadline is None and profile.print_blob


def test_no_doctest_depends_on_what_hypothesis_finds() -> None:
    sources = [*ROOT.glob("packages/*/src/**/*.py"), *ROOT.glob("examples/**/*.py")]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md")]
    assert len(sources) > 100 and len(pages) > 10
    results = [file for file in sources + pages if DRAWS_FROM_HYPOTHESIS.search(file.read_text())]
    assert results == []
