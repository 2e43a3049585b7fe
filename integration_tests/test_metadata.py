"""What the packages say of themselves fits together: versions, pins, licenses, documents."""

import ast
import re
import tomllib
from importlib import import_module
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


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def is_claim(specifier: str, version: str) -> bool:
    """Whether a range of siblings is one of ``0.y`` or ``0.y.z``, and has the version in it."""
    match = re.fullmatch(r">=(0\.\d+(?:\.\d+)?),<0\.(\d+)", specifier)
    if not match:
        return False
    floor, ceiling = numbers(match[1]), (0, int(match[2]))
    return floor[:2] == (0, ceiling[1] - 1) and floor <= numbers(version) < ceiling


@every_package
def test_siblings_are_claimed_as_they_are_in_the_tree(package: str) -> None:
    """That the oldest ones claimed do, is shown by the session `oldest`."""
    for name, specifier in requirements(package):
        if name in PROJECTS:
            assert is_claim(specifier, PROJECTS[name]["version"]), f"{package} on {name}"


@every_package
def test_a_package_tells_its_version(package: str) -> None:
    module = import_module(package.replace("-", "_"))
    assert module.__version__ == PROJECTS[package]["version"]


@pytest.mark.parametrize(
    ("specifier", "version", "is_right"),
    [
        (">=0.1,<0.2", "0.1.0", True),
        (">=0.1,<0.2", "0.1.7", True),
        (">=0.1.7,<0.2", "0.1.7", True),
        (">=0.9.1,<0.10", "0.9.12", True),
        (">=0.1.8,<0.2", "0.1.7", False),  # newer than the tree
        (">=0.1,<0.2", "0.2.0", False),  # the tree is newer
        (">=0.1,<0.3", "0.2.0", False),  # over a change that breaks
        (">=0.2,<0.2", "0.2.0", False),
        (">=0.1", "0.1.0", False),
        ("<0.2", "0.1.0", False),
        ("", "0.1.0", False),
        ("==0.1.0", "0.1.0", False),
        (">=0.1,<=0.2", "0.1.0", False),
        (">=0.1,<1.0", "0.1.0", False),
        (">=1.0,<1.1", "1.0.0", False),  # the rule is that of versions 0.y
    ],
)
def test_the_check_sees_wrong_claims(specifier: str, version: str, is_right: bool) -> None:
    assert is_claim(specifier, version) == is_right


@every_package
def test_every_other_dependency_has_a_floor_and_no_ceiling(package: str) -> None:
    for name, specifier in requirements(package):
        if name not in PROJECTS:
            assert re.fullmatch(r">=[\d.]+", specifier), f"{package} on {name}{specifier}"


def test_constraints_have_the_release_of_all_that_sessions_install_by_name() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    named = {parse(line) for group in groups.values() for line in group if isinstance(line, str)}
    named.update(one for package in PROJECTS for one in requirements(package))
    for node in ast.walk(ast.parse((ROOT / "noxfile.py").read_text("utf-8"))):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) in ("PEERS", "WITNESSES", "others"):
                named.update(parse(line) for line in ast.literal_eval(node.value))
    pins = re.findall(r"^([\w-]+)==", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    free = {name for name, specifier in named if not specifier.startswith("==")}
    assert free - {*PROJECTS} == free & {*pins}


@every_package
def test_the_license_is_that_of_the_repository(package: str) -> None:
    folder = ROOT / "packages" / package
    assert PROJECTS[package]["license"] == "Apache-2.0"
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def fault_of_changelog(text: str, version: str) -> str | None:
    """Return what is wrong with the changelog of a package of that version."""
    head, *sections = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    titles, bodies = sections[::2], sections[1::2]
    if head != "# Changelog\n\n" or not titles:
        return "it must begin with its title and a section"
    if not all(re.match(r"\n[^\s#]", body) for body in bodies):
        return "every section must say something"
    has_unreleased = titles[0] == "Unreleased"
    dated = titles[has_unreleased:]
    results = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", title) for title in dated]
    released = [numbers(match[1]) for match in results if match]
    if len(released) < len(dated):
        return "a section must be Unreleased, once and first, or like 0.1.0 (2026-12-31)"
    if released != sorted(set(released), reverse=True):
        return "releases must be listed from the newest to the oldest, each once"
    if has_unreleased and numbers(version) <= max(released, default=(0, 0, 0)):
        return f"what is Unreleased must have a newer version than {version}"
    if not has_unreleased and numbers(version) != released[0]:
        return f"its first section must be {version}, or Unreleased"
    return None


@every_package
def test_the_changelog_has_the_version(package: str) -> None:
    text = (ROOT / "packages" / package / "CHANGELOG.md").read_text("utf-8")
    assert fault_of_changelog(text, PROJECTS[package]["version"]) is None


@pytest.mark.parametrize(
    ("titles", "version", "fault"),
    [
        (["Unreleased"], "0.1.0", None),
        (["0.1.0 (2026-11-30)"], "0.1.0", None),
        (["Unreleased", "0.1.0 (2026-11-30)"], "0.1.1", None),
        (["Unreleased", "0.1.0 (2026-11-30)"], "0.2.0", None),
        (["0.10.0 (2027-01-01)", "0.9.0 (2026-12-01)"], "0.10.0", None),
        (["0.1.0 (2026-11-30)"], "0.1.1", "first section must be 0.1.1"),
        (["0.2.0 (2026-11-30)"], "0.1.1", "first section must be 0.1.1"),
        (["Unreleased", "0.1.0 (2026-11-30)"], "0.1.0", "a newer version than 0.1.0"),
        (["Unreleased", "0.2.0 (2026-11-30)"], "0.1.9", "a newer version than 0.1.9"),
        (["0.1.0"], "0.1.0", "must be Unreleased, once and first, or like"),
        (["0.1.0 (2026-11-30)", "Unreleased"], "0.1.0", "must be Unreleased, once and first"),
        (["Unreleased", "Unreleased"], "0.1.0", "must be Unreleased, once and first"),
        (["0.1.0 (2026-11-30)", "0.2.0 (2026-12-30)"], "0.2.0", "from the newest to the oldest"),
        (["0.1.0 (2026-11-30)", "0.1.0 (2026-11-30)"], "0.1.0", "each once"),
        ([], "0.1.0", "a section"),
    ],
)
def test_the_check_sees_a_wrong_changelog(
    titles: list[str], version: str, fault: str | None
) -> None:
    text = "# Changelog\n\n" + "".join(f"## {title}\n\n- This.\n\n" for title in titles)
    result = fault_of_changelog(text, version)
    assert result is None if fault is None else fault in str(result)


@pytest.mark.parametrize("text", ["## Unreleased\n\n- This.\n", "# Changelog\n\n## Unreleased\n\n"])
def test_the_check_sees_a_changelog_without_a_title_or_a_text(text: str) -> None:
    assert "must" in str(fault_of_changelog(text, "0.1.0"))


@every_package
def test_the_readmes_name_the_package_and_show_it_at_work(package: str) -> None:
    readme = (ROOT / "packages" / package / "README.md").read_text("utf-8")
    assert readme.startswith(f"# {package}\n")
    assert "```python" in readme
    assert f"[{package}](packages/{package}/README.md)" in (ROOT / "README.md").read_text("utf-8")
    assert (ROOT / "docs" / "packages" / f"{package}.md").is_file()


@every_package
def test_a_changelog_has_one_line_for_each_change(package: str) -> None:
    text = (ROOT / "packages" / package / "CHANGELOG.md").read_text("utf-8")
    before, *sections = text.partition("## Unreleased\n")[2].partition("\n## ")[0].split("\n### ")
    assert "\n- " not in before, "a line belongs under Added, Changed or Fixed"
    for section in sections:
        assert section.startswith(("Added\n", "Changed\n", "Fixed\n"))
    assert len(sections) == 1 or "\nThe first release" not in before, "there is only Added"
    lines = text.splitlines()
    assert [line for line in lines if len(line) > 160 or line.startswith("  ")] == []
