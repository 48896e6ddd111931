"""`uv.lock` is that of this `pyproject.toml`: the same requirements, and versions within their bounds."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

HOW = "run `uv lock`, as CONTRIBUTING.md says"


@pytest.fixture(scope="module")
def project(project_root: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return found


@pytest.fixture(scope="module")
def lock(project_root: Path) -> dict[str, Any]:
    return tomllib.loads((project_root / "uv.lock").read_text(encoding="utf-8"))


def wanted(project: dict[str, Any]) -> set[tuple[str, str, SpecifierSet]]:
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        (extra, canonicalize_name(one.name), one.specifier)
        for extra, lines in groups.items()
        for one in map(Requirement, lines)
    }


def test_it_was_made_of_these_requirements(project: dict[str, Any], lock: dict[str, Any]) -> None:
    (own,) = (one for one in lock["package"] if one["name"] == project["name"])
    said = {
        (
            one.get("marker", "").removeprefix("extra == ").strip("'"),
            one["name"],
            SpecifierSet(one["specifier"]),
        )
        for one in own["metadata"]["requires-dist"]
    }
    assert said == wanted(project), HOW
    assert set(own["metadata"]["provides-extras"]) == set(project["optional-dependencies"]), HOW
    assert lock["requires-python"] == project["requires-python"], HOW


def test_every_version_is_one_that_is_allowed(project: dict[str, Any], lock: dict[str, Any]) -> None:
    versions: dict[str, list[str]] = {}
    for one in lock["package"]:
        versions.setdefault(one["name"], []).append(one.get("version", ""))
    for _, name, bounds in wanted(project):
        assert versions.get(name), f"{name} is not in uv.lock: {HOW}"
        for version in versions[name]:
            assert bounds.contains(version, prereleases=True), f"{name} {version} is not {bounds}: {HOW}"


def test_it_names_the_public_registry_alone(lock: dict[str, Any]) -> None:
    sources = {str(value) for one in lock["package"] for value in one["source"].values()}
    assert sources == {"https://pypi.org/simple", "."}
