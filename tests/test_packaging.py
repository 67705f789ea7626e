"""pyproject.toml, constraints.txt, environment.yml, and what the code imports, say the same."""

import ast
import importlib.metadata
import sys
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import labkit
from labkit.files import repo_root

ROOT = repo_root()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = [Requirement(text) for text in PROJECT["dependencies"]]
DEV = [Requirement(text) for text in PROJECT["optional-dependencies"]["dev"]]
WORLDS = [Requirement(text) for text in PROJECT["optional-dependencies"]["worlds"]]
CONSTRAINTS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def pinned() -> dict[str, Version]:
    return {canonicalize_name(c.name): Version(next(iter(c.specifier)).version) for c in CONSTRAINTS}


def test_every_constraint_is_one_exact_version():
    names = [canonicalize_name(c.name) for c in CONSTRAINTS]
    assert sorted(set(names)) == sorted(names)
    for constraint in CONSTRAINTS:
        (specifier,) = constraint.specifier
        assert specifier.operator == "==" and "*" not in specifier.version, constraint
        # A local version (+cpu) exists in one index only and would make the file useless elsewhere.
        assert Version(specifier.version).local is None, constraint


@pytest.mark.parametrize("requirement", DEPENDENCIES + DEV + WORLDS, ids=lambda r: r.name)
def test_each_dependency_has_a_lower_bound_that_its_constraint_satisfies(requirement):
    assert [s.operator for s in requirement.specifier] == [">="]
    assert requirement.specifier.contains(pinned()[canonicalize_name(requirement.name)], prereleases=True)


def test_torch_is_pinned_and_nothing_pulls_a_cuda_build():
    assert pinned()["torch"] == Version("2.13.0")
    assert not [name for name in pinned() if name.startswith(("nvidia", "cuda", "triton", "pytorch-triton"))]


def test_environment_yml_installs_the_same_packages_the_same_way():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    assert environment["name"] == PROJECT["name"] == "labkit"
    assert pip == {"pip": ["-c constraints.txt", "-e .[dev]"]}
    assert [package.partition("=")[0] for package in conda] == ["python", "pip"]
    python = conda[0].partition("=")[2]
    assert SpecifierSet(PROJECT["requires-python"]).contains(python)


def test_the_version_is_written_once_more_and_agrees():
    assert labkit.__version__ == PROJECT["version"]


def imports_of(folder: str) -> dict[str, str]:
    """Top-level package imported anywhere under a folder -> the first file that does."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], str(path.relative_to(ROOT)))
    return found


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("labkit", DEPENDENCIES + WORLDS),
        ("notebooks", DEPENDENCIES),
        ("tests", DEPENDENCIES + DEV + WORLDS),
    ],
    ids=["labkit", "notebooks", "tests"],
)
def test_what_the_code_imports_is_declared(folder, allowed):
    declared = {canonicalize_name(r.name) for r in allowed}
    provides = importlib.metadata.packages_distributions()
    own = {"labkit", "tests", "__future__"}
    # A module that is not installed, as one of an extra may be, is taken for a package of its name.
    undeclared = {
        module: where
        for module, where in imports_of(folder).items()
        if module not in own | sys.stdlib_module_names
        and not declared & {canonicalize_name(d) for d in provides.get(module, [module])}
    }
    assert not undeclared, f"imported but not in pyproject.toml: {undeclared}"


def test_an_extra_is_imported_only_where_it_is_used():
    # At the top of a module, an optional package would be needed by all that imports the module.
    optional = {r.name.replace("-", "_") for r in WORLDS}
    for path in sorted((ROOT / "labkit").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_the_top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {alias.name for node in at_the_top if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in at_the_top if isinstance(node, ast.ImportFrom)}
        assert not optional & {name.partition(".")[0] for name in names}, path
