"""Every definition is complete, and none changes without a reviewer seeing it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.assets.definitions_snapshot import check_spec, snapshot
from trace_assets.definitions import build
from trace_assets.orchestration.pages import COLUMN_SOURCES, column_lineage
from trace_assets.records import TABLES
from trace_assets.records.base import describe_columns
from trace_assets.study import Study

SNAPSHOT = Path(__file__).with_name("definitions.json")
REWRITE = "TRACE_REWRITE_SNAPSHOT"
PAGES = {"report"}
"""Assets that are a page and no table."""


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    return build(Study.open(tmp_path_factory.mktemp("home"), overrides=[]))


@pytest.fixture(scope="module")
def assets(definitions: dg.Definitions) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = snapshot(definitions)["assets"]
    return found


def test_definitions_are_those_of_the_snapshot(definitions: dg.Definitions) -> None:
    now = json.dumps(snapshot(definitions), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get(REWRITE):
        SNAPSHOT.write_text(now, encoding="utf-8")
    assert json.loads(now) == json.loads(SNAPSHOT.read_text(encoding="utf-8")), (
        "the graph changed: if that is meant, `make snapshot` rewrites the file; commit it with the change"
    )


def test_every_asset_says_what_it_is_and_whose(
    definitions: dg.Definitions, assets: dict[str, dict[str, Any]]
) -> None:
    graph = definitions.resolve_asset_graph()
    for name, asset in assets.items():
        description = graph.get(dg.AssetKey(name.split("/"))).description or ""
        assert len(description.splitlines()[0]) > 20 and description.splitlines()[0].endswith("."), name
        assert asset["owners"] and asset["kinds"] and asset["code version"], name
        assert asset["group"] not in (None, "default"), name
        tags = dict(tag.split(": ") for tag in asset["tags"].split(", "))
        assert tags["layer"] == ("gpu" if asset["pool"] == "gpu" else "cpu"), name
        assert tags["door"] in ("diagnosis", "loop"), name
        assert bool(asset["columns"]) == (name not in PAGES), name


def test_every_check_says_what_it_checks(definitions: dg.Definitions) -> None:
    graph = definitions.resolve_asset_graph()
    specs = [
        check_spec(definitions, check)
        for key in graph.get_all_asset_keys()
        for check in graph.get(key).check_keys
    ]
    assert len(specs) >= 10
    for spec in specs:
        assert (spec.description or "").endswith("."), spec.name


def test_checks_that_guard_money_are_there(assets: dict[str, dict[str, Any]]) -> None:
    assert assets["labels"]["checks"]["labels_complete"] == "blocking"
    assert "contrast_not_empty" in assets["contrast"]["checks"]
    assert assets["adapter_validation"]["checks"]["no_harm"] == "blocking"
    assert "environment_accepted" in assets["environment_audit"]["checks"]
    assert "test_split_opened_once" in assets["evaluation"]["checks"]


def test_every_column_of_every_table_is_described() -> None:
    missing = [
        f"{record.table}.{column}"
        for record in TABLES
        for column in record.model_fields
        if column not in describe_columns(record)
    ]
    assert missing == [], "give these fields a docstring (or their name an entry in records/columns.py)"


def test_column_lineage_names_columns_that_exist_on_both_sides(assets: dict[str, dict[str, Any]]) -> None:
    upstream: dict[str, set[str]] = {}

    def above(name: str) -> set[str]:
        if name not in upstream:
            direct = set(filter(None, assets[name]["depends on"].split(", ")))
            upstream[name] = direct.union(*(above(parent) for parent in direct)) if direct else set()
        return upstream[name]

    assert {"contrast", "selected_capabilities", "routing", "evaluation"} <= set(COLUMN_SOURCES)
    columns_of = {name: asset["columns"].split(", ") for name, asset in assets.items()}
    for name, columns in COLUMN_SOURCES.items():
        assert set(columns) - {"*"} <= set(columns_of[name]), name
        for source in {source for sources in columns.values() for source in sources}:
            asset, _, column = source.rpartition(".")
            assert column in columns_of[asset], source
            assert asset in above(name), f"{name} does not come from {asset}"
        lineage = column_lineage(name, columns_of[name])
        assert lineage is not None and set(lineage.deps_by_column) <= set(columns_of[name])
    assert column_lineage("tasks", ["task_id"]) is None


def test_nothing_private_of_dagster_is_imported(project_root: Path) -> None:
    private = set()
    for file in (project_root / "trace_assets").rglob("*.py"):
        if not re.search(r"dagster\._|dagster_shared", text := file.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(ast.parse(text)):
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if any(name.startswith(("dagster._", "dagster_shared")) for name in names):
                private.add(file.relative_to(project_root).as_posix())
    assert private == set()


def test_both_ways_to_name_the_code_location_mean_one_module(project_root: Path) -> None:
    named = yaml.safe_load((project_root / "workspace.yaml").read_text())["load_from"][0]["python_module"]
    dg_project = tomllib.loads((project_root / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    assert named["module_name"] == dg_project["code_location_target_module"] == "trace_assets.definitions"
    assert (project_root / named["working_directory"]).resolve() == project_root


@pytest.mark.ci
def test_loading_takes_no_torch_no_cluster_no_database_and_little_time(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "import trace_assets.cli\n"
        "from trace_assets.definitions import load\n"
        "load()[0].resolve_asset_graph()\n"
        "heavy = {'torch', 'transformers', 'trl', 'peft', 'openai', 'docker'}\n"
        "heavy |= {'ray', 'psycopg', 'obstore', 'dagster_postgres', 'dagster_ray'}\n"
        "heavy &= set(sys.modules)\n"
        "print(time.process_time(), sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRACE_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=True,
    )
    seconds, _, heavy = done.stdout.strip().partition(" ")
    assert heavy == "[]"
    assert float(seconds) < 20  # of the processor: about 2 on an idle core
