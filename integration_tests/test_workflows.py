"""The workflows of the repository run sessions of nox, and install what these need of Debian."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
STEP = re.compile(r"\brun: *(.*)")
NOX = re.compile(r"\./nox -s ([a-z ]+?)(?: -- \"\$(?:TAG|FOLDER)\")?")
APT = "sudo apt-get update && sudo apt-get install -y {}"
JOB = re.compile(r"^  (\w+):\n((?:(?:    .*)?\n)+)", re.MULTILINE)


def sessions() -> set[str]:
    """Return the sessions of the noxfile."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any("nox.session" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def install_debian() -> str:
    """Return the command that installs the programs which .ci/run installs for the witnesses."""
    (programs,) = re.findall(
        r'^debian="(.*)"$', (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE
    )
    return APT.format(programs)


def faults(workflow: str) -> list[str]:
    """Return the commands of a workflow that neither are sessions of nox nor install programs."""
    results = []
    for command in STEP.findall(workflow):
        match = NOX.fullmatch(command)
        is_session = match and set(match[1].split()) <= sessions()
        if not is_session and command != install_debian():
            results.append(command)
    return results


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_command_is_a_session_of_nox(path: Path) -> None:
    text = path.read_text("utf-8")
    assert STEP.findall(text) and faults(text) == []


@pytest.mark.parametrize(
    "command",
    [
        *("./nox -s docs -- -k x", "./nox -s test", "pytest", "./nox -s docs; rm x", "|"),
        APT.format("nmap"),
    ],
)
def test_another_command_is_seen(command: str) -> None:
    assert faults(f"    - run: ./nox -s docs\n    - run: {command}\n") == [command]


def test_the_tests_run_on_each_python_that_the_packages_are_for() -> None:
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert 'python-version: ["3.11", "3.12", "3.13"]' in text


def test_every_session_is_run_by_a_workflow_or_a_comment_says_why_not() -> None:
    workflows = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
    steps = filter(None, map(NOX.fullmatch, STEP.findall(workflows)))
    run = {name for step in steps for name in step[1].split()}
    left_out = set(re.findall(r"^# - ([a-z]+): ", workflows, re.MULTILINE))
    assert run.isdisjoint(left_out)
    assert run | left_out == sessions()


def test_the_witnesses_have_the_programs_of_debian() -> None:
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    steps = STEP.findall(text)
    (witnesses,) = (n for n, step in enumerate(steps) if "witnesses" in step)
    assert steps[witnesses - 1] == install_debian()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_has_a_limit_of_time(path: Path) -> None:
    jobs = JOB.findall(path.read_text("utf-8").partition("\njobs:\n")[2])
    assert jobs
    for name, body in jobs:
        # A job that calls a workflow may have no limit: the jobs of that workflow have theirs.
        calls = body.startswith("    uses: ./")
        assert calls or re.search(r"^    timeout-minutes: \d+$", body, re.MULTILINE), name


def test_every_folder_of_tests_draws_other_examples_each_week() -> None:
    text = (ROOT / ".github" / "workflows" / "scheduled.yml").read_text("utf-8")
    named = re.findall(r"^ +- (packages/\S+|integration_tests)$", text, re.MULTILINE)
    packages = [f"packages/{path.parent.name}" for path in ROOT.glob("packages/*/pyproject.toml")]
    assert named == [*sorted(packages), "integration_tests"]


def test_every_action_is_pinned_by_commit_and_each_has_one_release() -> None:
    texts = [path.read_text("utf-8") for path in WORKFLOWS]
    actions = {action for text in texts for action in re.findall(r"\buses: ([^.].*)", text)}
    assert actions and all(re.search(r"@[0-9a-f]{40} # v[0-9.]+$", action) for action in actions)
    assert len({action.partition("@")[0] for action in actions}) == len(actions)


def test_what_publishes_has_passed_the_tests() -> None:
    text = (ROOT / ".github" / "workflows" / "publish.yml").read_text("utf-8")
    assert "uses: ./.github/workflows/tests.yml" in text
    assert re.findall(r"^    needs: (.*)$", text, re.MULTILINE) == ["tests", "build"]


@pytest.mark.parametrize("package", sorted(path.name for path in ROOT.glob("packages/*")))
def test_the_message_of_a_commit_has_a_package_and_a_reason(package: str) -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text("utf-8")
    (accepted,) = re.findall(r"^ +entry: '(.*)'$", hooks, re.MULTILINE)
    longest = f"{package}: ".ljust(72, "x")
    for message in (f"{package}: why\n\nBecause.\n", f"{longest}\n\nWhy.", "Merge branch 'x'\n"):
        assert re.search(accepted, message)
    assert re.search(accepted, f"docs, {package}: why\n\nBecause.\n")
    for message in (f"{package}: why\n", f"{package}: why\n\n# On branch\n", "why\n\nBecause.\n"):
        assert not re.search(accepted, message)
    for message in (f"{package}, : why\n\nBecause.\n", f"docs{package}: why\n\nBecause.\n"):
        assert not re.search(accepted, message)
    assert not re.search(accepted, f"{longest}x\n\nBecause.\n")


@pytest.mark.parametrize("can_install", [True, False])
def test_the_run_of_all_checks_names_the_witnesses_that_it_skips(
    can_install: bool, tmp_path: Path
) -> None:
    """With an imitation of nox, and of a Debian that has the programs or cannot install them."""
    skipped = "" if can_install else "echo 'SKIPPED [9] witnesses/test_bart.py: no bart'\n"
    nox = f"{skipped}echo 'nox > Running session tests'\necho '=== 5 passed in 3.2s ==='"
    debian = "exit 0" if can_install else "exit 1"
    for name, body in {"nox": nox, "dpkg": debian, "apt-get": debian}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / ".ci" / "run"
    script.parent.mkdir()
    shutil.copy(ROOT / ".ci" / "run", script)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run([script], env=env, capture_output=True, text=True, check=True)
    *_, witnesses, summary = run.stdout.splitlines()
    assert summary == "=== 5 passed in 3.2s ==="
    expected = (
        "all witnesses ran" if can_install else "not run: [9] witnesses/test_bart.py: no bart"
    )
    assert witnesses == expected
    assert ("cannot all be installed" in run.stdout) is not can_install
