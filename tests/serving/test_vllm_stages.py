"""The stages of the pipeline that play with vLLM in this process, as `rollouts.engine = "vllm"` asks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here; see docs/serving.md"),
]
psutil = pytest.importorskip("psutil")

from tests.serving.test_vllm import CANCEL, launch_in  # noqa: E402
from trace_assets.assets.adapter_validation import play_split  # noqa: E402
from trace_assets.assets.base_model import write_base_model  # noqa: E402
from trace_assets.assets.trajectories import write_batch, write_tasks  # noqa: E402
from trace_assets.records import Adapter, BaseCheckpoint, TrajectoryHead  # noqa: E402
from trace_assets.settings.settings import load_settings  # noqa: E402
from trace_assets.store.files import Home  # noqa: E402
from trace_assets.study import Study  # noqa: E402


def study_in(folder: Path, model: str, *more: str) -> Study:
    return Study(
        Home.open(folder / "home"),
        load_settings(
            None,
            [
                f"base_model.path={model}",
                "targets.discovery_tasks=8",
                "targets.test_tasks=6",
                "rollouts.engine=vllm",
                "evaluation.engine=vllm",
                "evaluation.trials=2",
                "rollouts.dtype=float32",
                "evaluation.dtype=float32",
                'serving.extra=["--enforce-eager"]',
                *more,
            ],
        ),
    )


def an_adapter(base: BaseCheckpoint, folder: Path) -> Adapter:
    rate = {f"validation_{side}{end}": 0.0 for side in ("before", "after") for end in ("", "_low", "_high")}
    return Adapter(
        adapter_id="a" * 16,
        name="mixed",
        kind="mixed",
        capability_id=None,
        environment_id=None,
        base_id=base.base_id,
        path=str(folder),
        iterations=1,
        best_iteration=1,
        rollouts=1,
        validation_n=0,
        **rate,
    )


def test_rollouts_and_arms_are_played_by_vllm(tmp_path: Path) -> None:
    launch = launch_in(tmp_path)
    study = study_in(tmp_path, launch.model)
    write_base_model(study)
    write_tasks(study, "embedded")
    result = write_batch(study, "embedded")
    heads = study.store.read(TrajectoryHead, "embedded")
    assert result.figures["faults"] == 0 and len(heads) == 16
    assert {head.policy for head in heads} == {"base"}

    base = study.store.read(BaseCheckpoint)[0]
    study.store.write([an_adapter(base, launch.adapters[CANCEL])], Adapter, "mixed")
    rows, trajectories = play_split(study, "test", None, None)
    assert {row.arm for row in rows} == {"base", "mixed_grpo"}
    assert len(rows) == 2 * 2 * 6 and not [row for row in rows if row.fault is not None]
    spoken = {
        adapter: {
            one.task_id: one.messages for one in trajectories if one.adapter == adapter and one.trial == 0
        }
        for adapter in (None, "mixed")
    }
    assert spoken[None].keys() == spoken["mixed"].keys()
    assert spoken[None] != spoken["mixed"]  # the adapter acts
    left = [
        child for child in psutil.Process().children(recursive=True) if "VLLM" in " ".join(child.cmdline())
    ]
    assert left == []


def test_a_machine_without_vllm_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_assets.errors import Unavailable

    launch = launch_in(tmp_path)
    study = study_in(tmp_path, launch.model)
    write_base_model(study)
    write_tasks(study, "embedded")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"needs vLLM in this interpreter"):
        write_batch(study, "embedded")
