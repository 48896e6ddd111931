"""What a comparison is tried on: a home with tau2 in it, a domain's tasks, and the server that plays them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.targets.tau2.scripted_server import Manner, Script, ScriptedServer
from trace_assets.study import Study
from trace_assets.targets.registry import open_named, read_installed
from trace_assets.targets.tau2.parity import ParityReport
from trace_assets.workflows.benchmark_parity import ParityPlan, compare_with_official


@dataclass
class Table:
    """A home with tau2 in it, the domain's tasks and their reference solutions."""

    study: Study
    target: str
    scripts: dict[str, Script]
    ours: list[str]
    official: list[str]
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def solo(self) -> bool:
        return self.target.endswith("_solo")

    def server(self, manners: Sequence[Manner], tasks: int) -> ScriptedServer:
        """Make a server for the first tasks, their agents' manners dealt out in turn."""
        ours = self.ours[:tasks]
        order = [ours, [name for name in self.official if name in set(ours)]]
        scripts = {
            name: Script(name, self.scripts[name].reference, manners[place % len(manners)])
            for place, name in enumerate(ours)
        }
        return ScriptedServer(scripts, [name for side in order for name in side], solo=self.solo)

    def compare(
        self,
        url: str,
        tasks: int,
        *overrides: str,
        user_url: str = "",
        concurrency: int = 1,
        again: bool = False,
    ) -> tuple[ParityReport, Path]:
        """Compare on the first tasks; the server knows conversations apart only one at a time."""
        user = {"user_model": "user", "user_base_url": user_url or url} if not self.solo else {}
        options = {**user, "judge": True, **self.options}
        words = [
            "rollouts.engine=openai",
            f"rollouts.base_url={url}",
            "rollouts.model=agent",
            "rollouts.temperature=0",
            f"targets.processes={concurrency}",
            "targets.call_seconds=120",
            *overrides,
        ]
        words += [f"targets.options.{name}={json.dumps(value)}" for name, value in options.items()]
        study = Study.open(self.study.home.path, overrides=words)
        plan = ParityPlan(
            self.target,
            ("discovery", "validation", "test"),
            tasks=tasks,
            concurrency=concurrency,
            patience=300.0,
            again=again,
        )
        return compare_with_official(study, plan)


def set_table(installed: str, domain: str, folder: Path) -> Table:
    """Make a home that borrows the benchmarks of another, and read a domain's tasks and their solutions."""
    home = folder / "home"
    home.mkdir()
    (home / "targets").symlink_to(Path(installed).absolute() / "targets")
    study = Study.open(home, overrides=[])
    name = f"tau2:{domain}"
    target: Any = open_named(study.settings.targets, name, study.home.targets, serverless=True)
    try:
        tasks = [task for split in ("discovery", "validation", "test") for task in target.tasks(split)]
        ours = [task.payload["id"] for task in tasks]
        scripts = {task.payload["id"]: Script(task.payload["id"], target.oracle(task)) for task in tasks}
    finally:
        target.close()
    data = Path(read_installed(study.home.targets, "tau2").variables["TAU2_DATA_DIR"])
    file = data / "tau2" / "domains" / domain.removesuffix("_solo") / "tasks.json"
    listed = [task["id"] for task in json.loads(file.read_text(encoding="utf-8"))]
    return Table(study, name, scripts, ours, [one for one in listed if one in set(ours)])


def judge_by(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tau2's own judge, whose server cannot be set otherwise, ask this one."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.v1)
    monkeypatch.setenv("OPENAI_API_KEY", "not-needed")
