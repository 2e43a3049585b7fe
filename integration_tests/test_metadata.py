"""What the packages say of themselves fits together: versions, pins, licenses, documents."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECTS: dict[str, dict[str, Any]] = {
    project["name"]: project
    for file in sorted(ROOT.glob("packages/*/pyproject.toml"))
    for project in [tomllib.loads(file.read_text("utf-8"))["project"]]
}
every_package = pytest.mark.parametrize("package", PROJECTS)


def requirements(package: str) -> list[tuple[str, str]]:
    """Return the name and the version specifier of all that a package may install."""
    project = PROJECTS[package]
    extras = project.get("optional-dependencies", {}).values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return [parse(line) for line in lines]


def parse(requirement: str) -> tuple[str, str]:
    match = re.fullmatch(r"([\w-]+)([^;]*)(;.*)?", requirement.replace(" ", ""))
    assert match, requirement
    return match[1], match[2]


@every_package
def test_siblings_are_pinned_to_the_version_in_the_tree(package: str) -> None:
    for name, specifier in requirements(package):
        if name in PROJECTS:
            major, minor, _ = map(int, PROJECTS[name]["version"].split("."))
            assert major == 0, "the rule below is that of versions 0.y"
            assert specifier == f">=0.{minor},<0.{minor + 1}", f"{package} on {name}"


@every_package
def test_every_other_dependency_has_a_floor_and_no_ceiling(package: str) -> None:
    for name, specifier in requirements(package):
        if name not in PROJECTS:
            assert re.fullmatch(r">=[\d.]+", specifier), f"{package} on {name}{specifier}"


@every_package
def test_the_license_is_that_of_the_repository(package: str) -> None:
    folder = ROOT / "packages" / package
    assert PROJECTS[package]["license"] == "Apache-2.0"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@every_package
def test_the_changelog_starts_with_what_is_not_released(package: str) -> None:
    text = (ROOT / "packages" / package / "CHANGELOG.md").read_text("utf-8")
    assert re.match(r"# Changelog\n\n## Unreleased\n\n\S", text)


@every_package
def test_the_readmes_name_the_package_and_show_it_at_work(package: str) -> None:
    readme = (ROOT / "packages" / package / "README.md").read_text("utf-8")
    assert readme.startswith(f"# {package}\n")
    assert "```python" in readme
    assert f"[{package}](packages/{package}/README.md)" in (ROOT / "README.md").read_text("utf-8")
    assert (ROOT / "docs" / "packages" / f"{package}.md").is_file()
