"""A package is a tree of small folders, and imports inside of it go one way."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IN_FOLDERS = [
    "nameddim",
    "memmap",
    "linops-core",
    "linops-solvers",
    "linops-imaging",
    "linops-split",
    "linops-multigpu",
    "linops-distributed",
    "torchlinops",
]
MOST_LINES = 400
MOST_MODULES = 24
MOST_IN_A_CIRCLE = 3


def sources(package: str) -> dict[str, Path]:
    """Return the files of ``package`` by the dotted names of their modules."""
    root = ROOT / "packages" / package / "src"
    return {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): file
        for file in sorted(root.rglob("*.py"))
    }


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(
    name: str, tree: ast.Module, is_package: bool, modules: set[str]
) -> Iterator[tuple[str, bool]]:
    """Yield which of ``modules`` a module imports, and whether for annotations alone."""
    for_types = {
        id(inner)
        for outer in ast.walk(tree)
        if is_type_checking(outer)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        results: list[str] = []
        if isinstance(node, ast.Import):
            results = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if is_package else name.split(".")[:-1]
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            # Both `from .folder import _module` and `from ._module import name`.
            results = [
                full if (full := f"{base}.{alias.name}") in modules else base
                for alias in node.names
            ]
        for other in results:
            if other in modules and other != name:
                yield other, id(node) in for_types


def graph(package: str) -> dict[str, dict[str, bool]]:
    """Return what each module imports; True where it is for annotations alone."""
    files = sources(package)
    result: dict[str, dict[str, bool]] = {}
    for name, file in files.items():
        tree = ast.parse(file.read_text("utf-8"))
        edges: dict[str, bool] = {}
        for other, for_types in imports_of(name, tree, file.name == "__init__.py", {*files}):
            edges[other] = edges.get(other, True) and for_types
        result[name] = edges
    return result


def reachable(edges: Mapping[str, Mapping[str, bool]], start: str, run_only: bool) -> set[str]:
    """Return the modules that ``start`` imports, directly or not."""
    result: set[str] = set()
    ahead = [start]
    while ahead:
        for other, for_types in edges[ahead.pop()].items():
            if other not in result and not (run_only and for_types):
                result.add(other)
                ahead.append(other)
    return result


def circles(edges: Mapping[str, Mapping[str, bool]], run_only: bool = False) -> set[frozenset[str]]:
    """Return the sets of modules that import each other."""
    result = {name: reachable(edges, name, run_only) for name in edges}
    return {
        frozenset(other for other in result[name] if name in result[other])
        for name in edges
        if name in result[name]
    }


@pytest.mark.parametrize("package", IN_FOLDERS)
def test_modules_do_not_import_each_other(package: str) -> None:
    edges = graph(package)
    assert edges
    assert not circles(edges, run_only=True)
    for circle in circles(edges):  # which annotations alone close
        folders = {name.rpartition(".")[0] for name in circle}
        assert len(circle) <= MOST_IN_A_CIRCLE and len(folders) == 1, sorted(circle)


def test_each_folder_of_memmap_says_on_which_it_builds() -> None:
    edges, builds_on = graph("memmap"), dict[str, dict[str, bool]]()
    for name, file in sources("memmap").items():
        if file.name == "__init__.py" and name != "memmap":
            text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
            (said,) = re.findall(r"Builds on ([^.]*)\.", text)
            builds_on[name] = dict.fromkeys(re.findall("`(.*?)`", said), False)
    for folder, said in builds_on.items():
        imported = [
            other for name in edges if f"{name}.".startswith(f"{folder}.") for other in edges[name]
        ]
        others = {_folder_of(name) for name in imported if name.count(".") > 1}
        assert others - {_folder_of(folder)} == {*said}, folder
    short = {_folder_of(name): said for name, said in builds_on.items()}
    assert not circles(short)


def _folder_of(module: str) -> str:
    return module.split(".")[1].removeprefix("_")  # pages show these texts, but no private names


def test_a_class_has_a_name_of_its_own() -> None:
    classes = [
        node.name
        for package in IN_FOLDERS
        for file in sources(package).values()
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in classes if classes.count(name) > 1} == set()


@pytest.mark.parametrize("package", IN_FOLDERS)
def test_no_folder_has_too_many_modules(package: str) -> None:
    files = sources(package).values()
    for folder in {file.parent for file in files}:
        modules = [file.name for file in files if file.parent == folder]
        assert len(modules) <= MOST_MODULES + 1, f"{folder.name}: {len(modules) - 1} modules"


@pytest.mark.parametrize("package", IN_FOLDERS)
def test_no_file_is_too_long(package: str) -> None:
    lengths = {
        name: len(file.read_text("utf-8").splitlines()) for name, file in sources(package).items()
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


@pytest.mark.parametrize("package", IN_FOLDERS)
def test_tests_are_in_the_folders_of_what_they_test(package: str) -> None:
    tests = ROOT / "packages" / package / "tests"
    used = {".".join(file.relative_to(tests).parts[:-1]) for file in tests.rglob("test_*.py")}
    is_folder = {
        name.partition(".")[2]: f.stem == "__init__" for name, f in sources(package).items()
    }
    assert {folder for folder in used if not is_folder.get(folder)} == set()


@pytest.mark.parametrize(
    ("modules", "expected"),
    [
        ({"a": {"b": False}, "b": {}}, set()),
        ({"a": {"b": False}, "b": {"a": False}}, {frozenset("ab")}),
        ({"a": {"b": False}, "b": {"c": True}, "c": {"a": False}}, {frozenset("abc")}),
    ],
)
def test_circles_are_found(
    modules: dict[str, dict[str, bool]], expected: set[frozenset[str]]
) -> None:
    assert circles(modules) == expected


def test_imports_in_functions_and_of_modules_are_found() -> None:
    code = """
from . import _a
from .._b import thing
def f():
    import p.folder._c
if TYPE_CHECKING:
    from ._d import Type
"""
    modules = {"p.folder._a", "p._b", "p.folder._c", "p.folder._d", "p.folder"}
    result = dict(imports_of("p.folder._here", ast.parse(code), False, modules))
    assert result == {
        "p.folder._a": False,
        "p._b": False,
        "p.folder._c": False,
        "p.folder._d": True,
    }
