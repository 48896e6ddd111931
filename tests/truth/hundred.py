"""`python -m tests.truth.hundred`: what a model is asked about a hundred runs, by stage.

Forty of them are replayed from the recording and counted as the recording counts them. Of the other sixty
nobody is asked: their prompts are written as the stages would write them, with the capabilities that the
recorded model found, and measured, by the same forecast that is printed before a model is paid. Needs
`TRACE_TAU2_DATA`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.truth.readings import missing_data
from tests.truth.recorded import RECORDING, environment, replay, write_runs
from trace_assets.workflows.forecast import Forecast, forecast

MOST = {
    **dict.fromkeys(("gpt-4.1_airline.json", "sft-gpt-4.1_airline.json", "sft-gpt-4.1_retail.json"), 20),
    "gpt-4.1_retail.json": 40,
}
"""Runs of each file; the first twenty of gpt-4.1's two are those on record."""
STAGES = {
    "triage": ("triage",),
    "discovery": ("discover", "merge", "recognise"),
    "labels": ("label",),
    "lack_causes": ("cause",),
}
"""Kinds of requests, by the stage whose forecast has them."""


def recorded_calls(recording: Path = RECORDING) -> dict[str, Counter[str]]:
    """Return calls and tokens on record, by stage."""
    rows = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()[1:]]
    found = {}
    for stage, kinds in STAGES.items():
        own = [row["usage"] for row in rows if row["kind"] in kinds]
        found[stage] = Counter(
            calls=len(own),
            prompt=sum(one["prompt_tokens"] for one in own),
            completion=sum(one["completion_tokens"] for one in own),
        )
    return found


def table(recorded: Mapping[str, Counter[str]], rest: Mapping[str, Forecast]) -> str:
    """Return a line a stage: on record, the rest, and both."""
    lines = ["| stage | on record: calls, prompt tokens | the other runs | together |", "|---|---|---|---|"]
    for stage, own in recorded.items():
        more = rest[stage]
        both = own["calls"] + more.calls, own["prompt"] + more.prompt_tokens
        pairs = [(own["calls"], own["prompt"]), (more.calls, more.prompt_tokens), both]
        lines.append(f"| {stage} | {' | '.join(f'{calls}, {tokens:,}' for calls, tokens in pairs)} |")
    return "\n".join(lines)


def main() -> None:
    """Replay, read the other runs in, and print the table."""
    if reason := missing_data():
        print(f"skipped: {reason}.")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = replay(folder)
        (folder / "more").mkdir()
        files = map(str, write_runs(folder / "more", MOST))
        words = ("ingest", *files, "--config", str(folder / "trace.toml"))
        own = environment({"TRACE_HOME": str(folder / "home"), "DAGSTER_HOME": ""})
        subprocess.run([sys.executable, "-m", "trace_assets", *words], cwd=folder, env=own, check=True)
        rest = {row.stage: row for row in forecast(study)}
    print(table(recorded_calls(), rest))


if __name__ == "__main__":
    main()
