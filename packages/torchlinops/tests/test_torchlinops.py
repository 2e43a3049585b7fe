"""The umbrella has every name of every package, once, and none that is hidden by another."""

import ast
import importlib
import inspect
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
import torch

import torchlinops as tl

PACKAGES = [
    "nameddim",
    "memmap",
    "linops_core",
    "linops_solvers",
    "linops_imaging",
    "linops_split",
    "linops_multigpu",
    "linops_distributed",
]
MODULES = {
    "torchlinops.nameddim": "nameddim",
    "torchlinops.memmap": "memmap",
    "torchlinops.linops": "linops_core",
    "torchlinops.imaging": "linops_imaging",
    "torchlinops.interop": "linops_imaging.interop",
    "torchlinops.linops.split": "linops_split",
    "torchlinops.linops.device": "linops_multigpu",
    "torchlinops.linops.distributed": "linops_distributed",
    "torchlinops.alg": "linops_solvers",
    "torchlinops.testing": "linops_core.testing",
    "torchlinops.testing.strategies": "linops_core.testing.strategies",
}
# Modules of the umbrella, which are no names of the packages.
OF_THE_UMBRELLA = {"alg", "imaging", "linops", "memmap", "nameddim", "recon", "testing", "utils"}


def public(name: str) -> dict[str, object]:
    module = importlib.import_module(name)
    return {name: getattr(module, name) for name in module.__all__}


def test_type_checkers_see_the_names_that_load() -> None:
    tree = ast.parse(Path(tl.__file__).read_text("utf-8"))
    (block,) = (
        node for node in tree.body if isinstance(node, ast.If) and "*" in ast.unparse(node.body[0])
    )
    seen = {"config"}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom) and node.module is not None
        names = {alias.name for alias in node.names}
        seen |= {*importlib.import_module(node.module).__all__} if names == {"*"} else names
    assert [name for name in seen if not hasattr(tl, name)] == []
    assert {*tl.__all__} <= seen


def test_few_names_are_listed() -> None:
    assert len(tl.__all__) <= 130
    assert {*dir(tl)} - {*tl.__all__} == {name for name in vars(tl) if name.startswith("__")}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_of_a_package_is_here(package: str) -> None:
    for name, value in public(package).items():
        assert inspect.ismodule(value) or getattr(tl, name) is value, f"{package}.{name}"


def test_a_name_that_is_nowhere_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'torchlinops' has no attribute 'nothing'$"):
        tl.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_every_name_here_is_one_of_a_package_or_a_module() -> None:
    known = {name for package in PACKAGES for name in public(package)}
    listed = {name for name in dir(tl) if not name.startswith("__")}
    assert listed - known == OF_THE_UMBRELLA


@pytest.mark.parametrize(("one", "other"), [*combinations(PACKAGES, 2)])
def test_two_packages_give_one_name_to_one_thing(one: str, other: str) -> None:
    first, second = public(one), public(other)
    for name in first.keys() & second.keys():
        assert first[name] is second[name], name


def test_no_name_of_a_package_is_hidden_by_a_module_of_the_umbrella() -> None:
    for package in PACKAGES:
        for name in public(package).keys() & OF_THE_UMBRELLA:
            raise AssertionError(f"{package}.{name} cannot be seen in torchlinops")


@pytest.mark.parametrize(("path", "package"), [*MODULES.items()])
def test_the_modules_of_the_umbrella_have_the_names_of_their_packages(
    path: str, package: str
) -> None:
    module = importlib.import_module(path)
    assert module.__name__ == path
    assert set(importlib.import_module(package).__all__) <= set(module.__all__)
    for name, value in public(package).items():
        assert getattr(module, name) is value or inspect.ismodule(value)


def test_a_module_is_the_same_however_it_is_reached() -> None:
    """In a fresh interpreter: an import later on must not put another module in its place."""
    paths = ["torchlinops.config", "torchlinops.utils", *MODULES]
    paths.remove("torchlinops.testing.strategies")  # which needs hypothesis
    attributes = f"[{', '.join(path.replace('torchlinops', 'tl', 1) for path in paths)}]"
    code = (
        f"import importlib, torchlinops as tl\nbefore = {attributes}\n"
        f"imported = [importlib.import_module(path) for path in {paths}]\n"
        f"assert before == imported == {attributes}, (before, imported)\n"
        "import sys\nassert 'hypothesis' not in sys.modules  # only tests need it"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_namespace_has_all_names_of_mri() -> None:
    for module in (tl.coil_maps, tl.imaging.epi):
        assert {*module.__all__} <= {*tl.mri.__all__}
        for name in module.__all__:
            assert getattr(tl.mri, name) is getattr(module, name)


def test_star_import_gives_all_of_it() -> None:
    names: dict[str, object] = {}
    exec("from torchlinops import *", names)
    assert {name for name in dir(tl) if not name.startswith("__")} <= names.keys()
    assert isinstance(names["alg"], ModuleType) and names["alg"].__name__ == "torchlinops.alg"


def test_the_paths_of_the_reference_library_work() -> None:
    from torchlinops.alg import conjugate_gradients
    from torchlinops.linops.split import BatchSpec, create_batched_linop, split_linop
    from torchlinops.nameddim import NamedDimension as ND

    A = tl.Diagonal(torch.rand(4), ("Nx",))
    linops, _, _ = split_linop(A, {"Nx": 2})
    part = A.split(A, {ND("Nx"): slice(0, 2)})
    x = torch.rand(2)
    assert torch.equal(linops[0](x), part(x))
    assert conjugate_gradients is tl.alg.conjugate_gradients
    assert (BatchSpec, create_batched_linop) == (tl.BatchSpec, tl.create_batched_linop)


def test_settings_take_effect_by_every_path_to_them() -> None:
    import linops_core.config
    import torchlinops.config

    A = tl.Diagonal(torch.rand(3), ("N",))
    with torchlinops.config.using(cache_adjoint_normal=False):
        assert A.N is not A.N
    try:
        tl.config.cache_adjoint_normal = False
        assert linops_core.config.cache_adjoint_normal is False
        assert tl.config.cache_adjoint_normal is False
        assert A.H is not A.H
    finally:
        tl.config.cache_adjoint_normal = True
    assert A.H is A.H


def test_a_patch_of_a_setting_holds_and_undoes_itself() -> None:
    A = tl.Diagonal(torch.rand(3), ("N",))
    with mock.patch("torchlinops.config.cache_adjoint_normal", False):
        assert A.H is not A.H
    assert tl.config.cache_adjoint_normal is True
    assert A.H is A.H


def test_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError, match="a setting must be one of cache_adjoint_normal"):
        tl.config.cache_adjoint = False  # type: ignore[attr-defined]


def test_the_helpers_are_those_of_the_packages() -> None:
    from linops_core.testing import inner, is_adjoint

    assert tl.utils.inner is inner and tl.utils.is_adjoint is is_adjoint
    for name in set(tl.utils.__all__) - {"inner", "is_adjoint"}:
        assert getattr(tl.utils, name) is public("memmap")[name]


SOURCE = Path(__file__).parents[1] / "src" / "torchlinops"
OTHER = {"__init__.py": "from . import config\n__version__ = '0.8.3'\n", "config.py": ""}
REFUSED = (
    "torchlinops is the import name of two distributions, and both are "
    "installed: torchlinops and torch-named-linops 0.8.3. Remove both, then install the one "
    "you want: pip uninstall torch-named-linops torchlinops"
)


def install_ours(folder: Path) -> None:
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, folder / "torchlinops", dirs_exist_ok=True, ignore=without)
    installed(folder, "torchlinops", "0.1.0")


def install_ours_editable(folder: Path) -> None:
    """Write what an editable install has there; the other files stay where they are."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    (folder / "torchlinops").mkdir(exist_ok=True)
    for source, target in included.items():
        path = SOURCE.parents[1] / source
        if path.is_dir():
            shutil.copytree(path, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / target)
    installed(folder, "torchlinops", "0.1.0")


def install_other(folder: Path) -> None:
    """Write the two files that decide; every release since 0.5 has them."""
    (folder / "torchlinops").mkdir(exist_ok=True)
    for name, text in OTHER.items():
        (folder / "torchlinops" / name).write_text(text, "utf-8")
    installed(folder, "torch-named-linops", "0.8.3")


def installed(folder: Path, distribution: str, version: str) -> None:
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    (info / "METADATA").write_text(text, "utf-8")


def import_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import it anew, where an editable install has added its sources after what is installed."""
    monkeypatch.setattr(sys, "path", [str(folder), str(SOURCE.parent), *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchlinops"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("torchlinops")


@pytest.mark.parametrize("ours", [install_ours, install_ours_editable])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_other_distribution_of_this_name_is_refused_in_both_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: Callable[[Path], None], is_first: bool
) -> None:
    for install in (ours, install_other) if is_first else (install_other, ours):
        install(tmp_path)
    with pytest.raises(ImportError) as error:
        import_from(tmp_path, monkeypatch)
    assert str(error.value) == REFUSED


def test_an_editable_install_is_imported_from_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ours_editable(tmp_path)
    assert import_from(tmp_path, monkeypatch).__file__ == str(SOURCE / "__init__.py")


@pytest.mark.parametrize("install", [install_ours, install_other])
def test_each_distribution_of_this_name_can_be_imported_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[[Path], None]
) -> None:
    install(tmp_path)
    result = import_from(tmp_path, monkeypatch)
    assert result.__file__ == str(tmp_path / "torchlinops" / "__init__.py")
    assert result.__version__ == ("0.8.3" if install is install_other else "0.1.0")


def test_other_distributions_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path, "torch-linops", "1.0")
    assert import_from(tmp_path, monkeypatch).__name__ == "torchlinops"
