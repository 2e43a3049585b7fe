"""Every check and chore of the repository, one session each; ``./nox --list`` names them."""

import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement
from packaging.version import Version

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "typecheck", "tests", "integration"]

PROJECTS = {
    project["name"]: project
    for file in sorted(Path("packages").glob("*/pyproject.toml"))
    for project in [nox.project.load_toml(file)["project"]]
}
PACKAGES = list(PROJECTS)
TOGETHER = ["integration_tests", "README.md", "CONTRIBUTING.md", "docs"]
SCRIPTS = ["conftest.py", "noxfile.py", "docs/conf.py"]
# Without options of its own, a run of the tests has a process for each core; a file stays in one.
# Files come in their order: sorted by the number of tests, the longest would be the last to begin.
PARALLEL = ["--numprocesses=logical", "--maxprocesses=8", "--dist=loadfile"]
PARALLEL += ["--no-loadscope-reorder"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
PINNED = "--constraint=constraints.txt"
OLDEST = "--resolution=lowest-direct"
# What benchmarks compare with.
PEERS = ["sigpy", "pylops", "pyproximal", "mrpro", "deepinv", "pywavelets", "astra-toolbox"]
PEERS += ["itk-rtk", "scikit-image", "mri-nufft", "torchkbnufft"]
# Programs that share no code with us.
WITNESSES = [
    "astra-toolbox",
    "deepinv",
    "finufft",
    "ismrmrd",
    "mri-nufft",
    "mrpro",
    "odl",
    "ptwt",
    "pylops",
    "pynufft",
    "pyproximal",
    "pytorch-finufft",
    "pyunlocbox",
    "pywavelets",
    "scico",
    "scikit-image",
    "sigpy",
    "simpleitk",
    "sporco",
    "torchkbnufft",
]
# Extras that the tests of a package do without: libraries whose operators are read, and DeepInverse
# brings torchvision along.
ONLY_WITNESSED = [
    "astra",
    "deepinv",
    "mrinufft",
    "mrpro",
    "odl",
    "ptwt",
    "pynufft",
    "scico",
    "torchkbnufft",
]
# Files that GitHub reads, and the schema of each.
FOR_GITHUB = {
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "citation-file-format": "CITATION.cff",
}
REFERENCE = ["torch-named-linops==0.8.3", "pytest"]  # the same, in an environment of its own

# Run where a package has just been installed without its extras: all that it imports is declared.
IMPORT_ALL_MODULES = """
import importlib, pkgutil, sys
from importlib.metadata import distributions
package = importlib.import_module(sys.argv[1])
modules = [found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
modules = [name for name in modules if not {"__main__", "testing"} & set(name.split("."))]
for name in modules:
    importlib.import_module(name)
installed = sorted(found.name for found in distributions())
print(f"{package.__name__}: {1 + len(modules)} modules import with {', '.join(installed)}")
"""
COUNT_GPUS = """
import torch
print(torch.accelerator.device_count() if torch.accelerator.is_available() else 0)
"""
# The second run finds what the first one left behind in the process, and has an order of its own.
RUN_TWICE = """
import argparse, random, sys, pytest
options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
options.add_argument("--randomly-seed", type=int, default=random.randrange(2**31))
known, arguments = options.parse_known_args()
seeds = known.randomly_seed, known.randomly_seed + 1
sys.exit(max(pytest.main([*arguments, f"--randomly-seed={seed}"]) for seed in seeds))
"""

# Python keeps what it compiles here: an environment that is made anew compiles torch once. Where
# Python may keep nothing, each process compiles torch again, in three times the time of its import.
os.environ.setdefault("PYTHONPYCACHEPREFIX", str(Path(".nox", "pycache").resolve()))
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("UV_BUILD_CONSTRAINT", "constraints.txt")  # for the build backend
# Threads of torch that wait by spinning starve each other where the cores are shared.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# uv does not read pip's settings: give it the folder of wheels that pip was told of.
if "PIP_FIND_LINKS" in os.environ:
    os.environ.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])


def import_name(package: str) -> str:
    """Return the name by which ``package`` is imported."""
    return package.replace("-", "_")


def needed_siblings(package: str, *, extras: bool = False) -> set[str]:
    """Return the packages of this repository that ``package`` needs, directly or not."""
    required = {requirement.name for requirement in requirements(PROJECTS[package], extras)}
    found = (needed_siblings(name, extras=extras) for name in required & set(PACKAGES))
    return (required & set(PACKAGES)).union(*found)


def requirements(project: Mapping[str, Any], extras: bool) -> list[Requirement]:
    """Return what a project requires, and what its extras add."""
    added = project.get("optional-dependencies", {}).values() if extras else ()
    return [Requirement(line) for lines in (project["dependencies"], *added) for line in lines]


def install(
    session: nox.Session, *packages: str, group: str = "", extra: str = "", pins: str = PINNED
) -> None:
    """Install ``packages`` and the siblings they need from the source tree.

    ``extra`` is one of the packages' own, several with commas between them, or ``*`` for all that
    the tests use; ``group`` is one of the dependency groups of pyproject.toml.
    """
    needed = (needed_siblings(name, extras=bool(extra)) for name in packages)
    siblings = set().union(*needed) - set(packages)
    targets = [f"packages/{name}" for name in sorted(siblings)]
    for name in packages:
        wanted = extras(name) if extra == "*" else extra
        targets.append(f"packages/{name}[{wanted}]" if wanted else f"packages/{name}")
    groups = [f"--group={group}"] if group else []
    session.install(pins, *groups, *(flag for target in targets for flag in ("-e", target)))


def extras(package: str) -> str:
    """Return the names of the extras of ``package``, as `install` takes them."""
    found = PROJECTS[package]["optional-dependencies"]
    return ",".join(name for name in found if name not in ONLY_WITNESSED)


@nox.session
def tests(session: nox.Session) -> None:
    """Test all packages; folders and options after -- go to pytest instead."""
    install(session, *PACKAGES, extra="*", group="test")
    session.run("pytest", *(session.posargs or ["packages", *PARALLEL]), env=ONE_THREAD)


@nox.session
def integration(session: nox.Session) -> None:
    """Test what only holds between packages, and run the code in the documents."""
    install(session, *PACKAGES, extra="testing", group="integration")
    session.run("pytest", *TOGETHER, *(session.posargs or PARALLEL), env=ONE_THREAD)


@nox.session(default=False)
def witnesses(session: nox.Session) -> None:
    """Compare with other programs; those of Debian take part where they are installed."""
    install(session, "linops-imaging", extra="ismrmrd,nifti,testing", group="test")
    # The README compares with versions of these.
    install(session, "torchlinops")
    session.install(PINNED, *WITNESSES)
    # The plugin that ODL brings is for pytest 8 and older: pytest 9 stops when it loads it.
    session.run("pytest", "witnesses", "-p", "no:odl_plugins", *session.posargs)


@nox.session(default=False)
def conventions(session: nox.Session) -> None:
    """Run every row of docs/conventions.md (some GB, and BART); ``-- --write`` writes the page."""
    others = ["dask", "ducc0", "einx", "nibabel", "obspy", "pyfaust", "pyxu", "safetensors"]
    others += ["tensorly", "xarray"]
    others += ["matfree", "monai", "mpi4py", "mpich", "mrzerocore", "nufftax", "proxop", "pygsp"]
    others += ["pypulseq"]
    others += ["spgl1", "torchoptics"]
    others += ["algotom", "cvxpy", "kornia", "lightpipes", "mahotas", "nifty8", "phantominator"]
    others += ["poppy", "svmbir"]
    others += ["mrcfile", "netcdf4", "nmrglue"]
    others += ["aotools", "hotopy", "mpol", "pyfar", "pytomography"]
    others += ["hcipy", "pyholoscope", "torchtomo"]
    session.install(PINNED, *WITNESSES, *others)
    session.run("python", "docs/_conventions/run.py", *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def large(session: nox.Session) -> None:
    """Run each public function at 2^24 entries (24 GiB, hours); entries and --log2=27 after --."""
    install(session, "torchlinops", extra="*", group="integration")
    session.run("python", "benchmarks/large/run.py", *session.posargs)


@nox.session(default=False)
def models(session: nox.Session) -> None:
    """Copy, cast and move some hundred models of other libraries with memmap (some minutes)."""
    install(session, "memmap", extra="testing", group="models")
    session.run("pytest", "witnesses/models", *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def shuffled(session: nox.Session) -> None:
    """Run the tests twice in one process, in random orders; ``-- --randomly-seed=7`` repeats both.

    Documents are left out: each of them is read from top to bottom.
    """
    install(session, *PACKAGES, extra="*", group="shuffled")
    tested = ["--override-ini=testpaths=packages integration_tests", "--ignore-glob=*.md"]
    session.run("python", "-P", "-c", RUN_TWICE, *tested, *session.posargs)


@nox.session(default=False)
def thorough(session: nox.Session) -> None:
    """Test every property on 200 random examples, others in each run (over an hour on two cores).

    Folders and options after -- go to pytest, too; without folders, all are tested.
    """
    install(session, *PACKAGES, extra="*", group="integration")
    tested = session.posargs or ["packages", "integration_tests"]
    options = ["--hypothesis-profile=thorough", *PARALLEL]
    session.run("pytest", *options, *tested, env=ONE_THREAD)


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Reconstruct an MRI volume and a CT slice; options after -- go to the MRI script, alone."""
    install(session, "torchlinops", group="demo")
    run_demos(session)


def run_demos(session: nox.Session) -> None:
    """Run the demos with their output in .nox, or the first with the options given after ``--``."""
    output = f"--output={session.create_tmp()}"
    session.run("python", "examples/sense.py", *(session.posargs or [output]))
    if not session.posargs:
        session.run("python", "examples/ct.py", output)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and files for GitHub; ``-- --fix`` mends what can be mended."""
    session.install(PINNED, "--group=lint")
    fix = "--fix" in session.posargs
    session.run("ruff", "check", *(["--fix"] if fix else []), ".")
    session.run("ruff", "format", *([] if fix else ["--check"]), ".")
    for schema, pattern in FOR_GITHUB.items():
        files = map(str, sorted(Path().glob(pattern)))
        session.run("check-jsonschema", f"--builtin-schema=vendor.{schema}", *files)


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check types, strictly: sources, tests, examples and tools."""
    install(session, *PACKAGES, extra="testing", group="types")
    for package in PACKAGES:  # one by one: test files of two packages may have the same name
        session.run("mypy", f"packages/{package}")
    session.run("mypy", *SCRIPTS)
    session.run("mypy", "witnesses", "--exclude=witnesses/models")  # a conftest.py in both
    for folder in ("integration_tests", "witnesses/models", "examples", "benchmarks"):
        session.run("mypy", folder)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation into docs/_build/html; a warning is an error."""
    install(session, *PACKAGES, extra="testing", group="docs")
    shutil.rmtree("docs/_build", ignore_errors=True)  # pages that were, whose links are checked too
    # One thread for the small pictures: threads on shared cores wait for each other.
    env = {"OMP_NUM_THREADS": "1"}
    session.run("sphinx-build", "-W", "--keep-going", "docs", "docs/_build/html", env=env)


@nox.session(default=False, reuse_venv=False)
def build(session: nox.Session) -> None:
    """Build wheels and sdists into dist/, check them, and try each alone and all with the demos."""
    dist = Path("dist")
    shutil.rmtree(dist, ignore_errors=True)
    for package in PACKAGES:
        build_from(session, Path("packages", package), dist)
    wheels = sorted(map(str, dist.glob("*.whl")))
    sdists = sorted(map(str, dist.glob("*.tar.gz")))
    for wheel in wheels:
        check_wheel(session, wheel)
    for package in PACKAGES:
        try_alone(session, package, dist)
    session.install(PINNED, "--group=demo", *wheels)
    run_demos(session)
    session.install(PINNED, "--group=build")
    session.run("twine", "check", "--strict", *wheels, *sdists)
    session.run("mypy", "--strict", "-c", f"import {', '.join(map(import_name, PACKAGES))}")


def try_alone(session: nox.Session, package: str, dist: Path) -> None:
    """Install a wheel where nothing else is, import all of it and run the example of its README."""
    folder = Path(session.create_tmp(), "alone").resolve()
    python = str(folder / "bin" / "python")
    needed = sorted({package, *needed_siblings(package)})
    wheels = [next(dist.glob(f"{import_name(name)}-*.whl")) for name in needed]
    example = first_example(Path("packages", package, "README.md"))
    session.run("uv", "venv", "--quiet", "--clear", str(folder))
    session.run("uv", "pip", "install", "--quiet", f"--python={python}", PINNED, *map(str, wheels))
    program = f"{IMPORT_ALL_MODULES}\n{example}"
    # -I: nothing is imported from the tree.
    session.run(python, "-I", "-c", program, import_name(package), external=True, log=False)
    session.log(f"{package}: its wheel alone runs the example of its README")


def first_example(readme: Path) -> str:
    """Return the first block of Python in a README."""
    _, _, after = readme.read_text("utf-8").partition("```python\n")
    return after.partition("\n```")[0]


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Build the files of one package into dist/, for its tag: ``-- NAME-vVERSION``."""
    package, version = tagged(session)
    dist = Path("dist")
    shutil.rmtree(dist, ignore_errors=True)
    build_from(session, Path("packages", package), dist)
    (wheel,), (sdist,) = map(list, (dist.glob("*.whl"), dist.glob("*.tar.gz")))
    check_wheel(session, str(wheel))
    session.install(PINNED, "--group=build")
    session.run("twine", "check", "--strict", str(wheel), str(sdist))
    session.log(f"dist/ has {package} {version}")


def tagged(session: nox.Session) -> tuple[str, str]:
    """Return the package and the version of a tag; the tree must have both, with a changelog."""
    if len(session.posargs) != 1:
        session.error("give one tag, as in: ./nox -s release -- memmap-v0.1.0")
    package, _, version = session.posargs[0].rpartition("-v")
    if package not in PROJECTS:
        session.error(f"a tag must be NAME-vVERSION of {', '.join(PACKAGES)}: {session.posargs[0]}")
    if version != PROJECTS[package]["version"]:
        session.error(f"{package} has the version {PROJECTS[package]['version']}, not {version}")
    changelog = Path("packages", package, "CHANGELOG.md").read_text("utf-8")
    if not changelog.startswith(f"# Changelog\n\n## {version} ("):
        session.error(f"the changelog of {package} must begin with ## {version} and its date")
    return package, version


def build_from(session: nox.Session, folder: Path, dist: Path, *options: str) -> None:
    """Build the package in ``folder`` into ``dist``."""
    session.run("uv", "build", "--quiet", str(folder), f"--out-dir={dist}", *options)


def check_wheel(session: nox.Session, wheel: str) -> None:
    """Fail where a wheel lacks its license, its type marker, or has more than its package."""
    name = Path(wheel).name.split("-")[0]
    files = zipfile.ZipFile(wheel).namelist()
    folders = {file.split("/")[0] for file in files}
    (metadata,) = (folder for folder in folders if folder.endswith(".dist-info"))
    missing = {f"{name}/py.typed", f"{metadata}/licenses/LICENSE"}.difference(files)
    stray = folders - {name, metadata}
    if missing or stray:
        session.error(f"{wheel}: missing {sorted(missing)}, stray {sorted(stray)}")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Run the benchmarks, or those named after --, and write tables to benchmarks/results."""
    install(session, *PACKAGES, extra="testing", group="bench")
    # One that does not install is left out, and the benchmark says so.
    for peer in PEERS:
        session.install(PINNED, peer, silent=True, success_codes=[0, 1, 2])
    reference = f"--reference={reference_python(session)}"
    session.run("python", "benchmarks/run_all.py", reference, *session.posargs)


def reference_python(session: nox.Session) -> Path:
    """Make an environment for the library whose import name is that of ours; return its Python."""
    folder = Path(session.create_tmp(), "reference")
    python = folder / "bin" / "python"
    session.run("uv", "venv", "--quiet", "--allow-existing", str(folder))
    install = ["uv", "pip", "install", "--quiet", f"--python={python}", PINNED]
    # It imports pytest. Where it does not install, its benchmark says so, which needs only torch.
    session.run(*install, "numpy", "torch")
    session.run(*install, *REFERENCE, silent=True, success_codes=[0, 1, 2])
    return python


@nox.session(default=False)
def reference(session: nox.Session) -> None:
    """Check with torch-named-linops what the migration page and the README say of it."""
    python = str(reference_python(session))
    # None of our settings: they are for ours, as the warnings that are errors.
    options = ["--noconftest", f"--config-file={os.devnull}", "--rootdir=.", "--quiet"]
    options += ["--import-mode=importlib", "-p", "no:cacheprovider"]
    tested = ["integration_tests/migration", "witnesses/test_comparison_table.py"]
    session.run(python, "-m", "pytest", *options, *tested, *session.posargs, external=True)


@nox.session(default=False)
def distributed(session: nox.Session) -> None:
    """Test operators over ranks: threads and processes of gloo, with GPUs also those of NCCL."""
    install(session, *PACKAGES, extra="testing", group="integration")
    session.run("pytest", "packages/linops-distributed", *(session.posargs or PARALLEL))
    session.run("pytest", "integration_tests/test_sense_example.py", "-k", "two_ranks")
    found = int(str(session.run("python", "-c", COUNT_GPUS, silent=True, log=False)))
    session.log(f"NCCL needs a GPU for each rank, found {found}")
    if found:
        program = "packages/linops-distributed/tests/programs/device_ranks.py"
        options = ["--standalone", f"--nproc-per-node={found}"]
        session.run("python", "-m", "torch.distributed.run", *options, program)


@nox.session(default=False, reuse_venv=False)
def floor(session: nox.Session) -> None:
    """Test all packages with the oldest releases that they declare to work with (some GB)."""
    install(session, *PACKAGES, extra="testing", group="integration", pins=OLDEST)
    session.run("pytest", "packages", *TOGETHER, *(session.posargs or PARALLEL), env=ONE_THREAD)


@nox.session(default=False, reuse_venv=False)
def newest(session: nox.Session) -> None:
    """Test everything with the newest releases that there are, and print which (some GB)."""
    install(session, *PACKAGES, extra="*", group="integration", pins="--upgrade")
    session.run("python", "--version")
    session.run("uv", "pip", "list", "--exclude-editable")
    tested = session.posargs or ["packages", *TOGETHER, *PARALLEL]
    session.run("pytest", *tested, env=ONE_THREAD)


@nox.session(default=False, reuse_venv=False)
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def oldest(session: nox.Session, package: str) -> None:
    """Test each package with the oldest siblings that it declares to work with, all as wheels."""
    folder = Path(session.create_tmp(), "oldest")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    session.log(f"{package} {PROJECTS[package]['version']}, from the tree, is tested with")
    siblings = oldest_siblings(session, package, folder)
    if not siblings:
        session.log("  no siblings, as it needs none")
    for source in siblings.values():
        build_from(session, source, folder / "siblings", "--wheel")
    build_from(session, Path("packages", package), folder / "tested", "--wheel")
    (wheel,) = (folder / "tested").glob("*.whl")
    older = map(str, (folder / "siblings").glob("*.whl"))
    session.install(PINNED, "--group=test", f"{wheel}[{extras(package)}]", *older)
    # Doctests are left out: their modules would be imported from the tree.
    tested = [f"packages/{package}/tests", *(session.posargs or PARALLEL)]
    session.run("pytest", *tested, env=ONE_THREAD)


def oldest_siblings(session: nox.Session, package: str, folder: Path) -> dict[str, Path]:
    """Return the sources of each sibling that is needed, directly or not, at its claimed floor.

    Where two packages claim differently of one, the higher floor holds: only it satisfies both.
    """
    versions: dict[str, Version] = {}
    sources: dict[str, Path] = {}
    claims = list(claimed_floors(PROJECTS[package]))
    while claims:
        name, floor = claims.pop(0)
        if name not in versions or versions[name] < floor:
            versions[name] = floor
            sources[name] = source_of(session, name, floor, folder)
            project = nox.project.load_toml(sources[name] / "pyproject.toml")["project"]
            claims += claimed_floors(project)
    return sources


def claimed_floors(project: Mapping[str, Any]) -> Iterator[tuple[str, Version]]:
    """Yield the siblings that a project and its tests require, each with the oldest version."""
    for requirement in requirements(project, extras=True):
        if requirement.name in PROJECTS:
            (floor,) = (part.version for part in requirement.specifier if part.operator == ">=")
            yield requirement.name, Version(floor)


def source_of(session: nox.Session, package: str, version: Version, folder: Path) -> Path:
    """Return where a version of ``package`` lies: unpacked from its tag, or not yet released."""
    command = ["git", "tag", "--list", f"{package}-v*"]
    found = str(session.run(*command, external=True, silent=True, log=False))
    tags = {Version(tag.removeprefix(f"{package}-v")): tag for tag in found.split()}
    if version in tags:
        session.log(f"  {package} {version}, from the tag {tags[version]}")
        archive = folder / f"{tags[version]}.tar"
        unpacked = archive.with_suffix("")
        options = [f"--output={archive}", tags[version], f"packages/{package}"]
        session.run("git", "archive", *options, external=True, log=False)
        shutil.unpack_archive(archive, unpacked)
        return unpacked / "packages" / package
    if version == Version(PROJECTS[package]["version"]):
        session.warn(f"  {package} {version}, from the TREE: it is not released, there is no tag")
        return Path("packages", package)
    session.error(
        f"{package} {version} is claimed to be old enough, but there is neither a tag "
        f"{package}-v{version} (git fetch --tags gets them) nor is it the version in the tree"
    )


@nox.session(default=False)
def gpu(session: nox.Session) -> None:
    """Run the tests that need one GPU; on a machine with its own torch: --no-venv --no-install."""
    run_on_gpus(session, "gpu and not multigpu", needed=1)


@nox.session(default=False)
def multigpu(session: nox.Session) -> None:
    """Run the tests that need two GPUs or more; likewise."""
    run_on_gpus(session, "multigpu", needed=2)


def run_on_gpus(session: nox.Session, marks: str, needed: int) -> None:
    """Run the tests that carry ``marks`` if there are as many GPUs as needed, or skip."""
    install(session, *PACKAGES, extra="testing", group="integration")
    found = int(str(session.run("python", "-c", COUNT_GPUS, silent=True, log=False)))
    print(f"{session.name}: needs {needed} GPU(s), found {found}")
    if found < needed:
        session.skip(f"needs {needed} GPU(s), found {found}")
    sources = os.pathsep.join(str(Path("packages", name, "src").resolve()) for name in PACKAGES)
    env = {"PYTHONPATH": sources} if session.venv_backend == "none" else {}
    session.run("python", "-m", "pytest", "-m", marks, *session.posargs, env=env)
