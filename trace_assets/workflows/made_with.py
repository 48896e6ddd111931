"""The settings that finished work was made with, noted down beside it and held against those in force."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_assets.errors import InputError
from trace_assets.policies.openai_faults import public_url
from trace_assets.records import BaseCheckpoint, MadeWith, Task, TrajectoryHead
from trace_assets.report.formatting import count
from trace_assets.resources.inbox import batches, played_here, task_batches, task_inbox
from trace_assets.resources.sandbox import lost_permutations
from trace_assets.settings import Settings, Targets
from trace_assets.store.content import text_version
from trace_assets.store.item_locks import due_items
from trace_assets.study import Study

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "base_model": ("base_model", "targets"),
    "trajectories": ("targets", "rollouts", "base_model"),
    "triage": ("triage",),
    "capability_dictionary": ("discovery",),
    "labels": ("labels",),
    "environment": ("synthesis",),
    "environment_audit": ("synthesis", "sandbox", "rollouts"),
    "pilot": ("training", "targets"),
    "adapter": ("training",),
    "mixed_adapter": ("training", "targets"),
    "joint_adapters": ("training",),
    "consolidated": ("training", "evaluation", "targets"),
    "interference": ("training",),
    "adapter_validation": ("evaluation", "targets"),
    "evaluation": ("evaluation", "targets"),
}
"""Assets that play, train or pay, and the sections of the settings that decide what they make."""

BASE = "base_model"
"""Stands among the settings for the content of the base model."""
SHOWN = 6
"""Settings that are told one by one."""
_SECRET = re.compile(r"key|secret|password|token$", re.IGNORECASE)


@dataclass(frozen=True)
class Difference:
    """A setting that is another one now.

    Attributes:
        setting: Its name, such as `rollouts.temperature`.
        then: What it was when the item was made, as JSON; None where it was not set.
        now: What it is; None likewise.
    """

    setting: str
    then: str | None
    now: str | None

    def __str__(self) -> str:
        if self.setting == BASE:
            return "the base model was another one"
        return f"{self.setting} was {self.then or 'not set'}, is {self.now or 'not set'}"

    @property
    def has_grown(self) -> bool:
        """Whether it is a number that grew.

        >>> Difference("rollouts.trials", "2", "10").has_grown, Difference("a.b", '"2"', '"3"').has_grown
        (True, False)
        """
        values = [json.loads(value) for value in (self.then, self.now) if value is not None]
        numbers = all(isinstance(value, int | float) for value in values)
        return bool(len(values) == 2 and numbers and values[1] > values[0])


def note_settings(study: Study, asset: str, partition: str = "") -> None:
    """Write down with which settings an item was made: it is in the store, and these are in force."""
    rows = [
        MadeWith(asset=asset, partition=partition, setting=setting, value=value)
        for setting, value in settings_now(study, asset).items()
    ]
    study.store.write(rows, MadeWith, _place(asset, partition))


def differences(study: Study, asset: str, partition: str = "") -> list[Difference] | None:
    """Return the settings that an item was made with and that are others now.

    Args:
        study: The study; its settings are those in force.
        asset: The item's asset.
        partition: Its partition, empty when the asset has none.

    Returns:
        In the order of the settings; None when it is not known what the item was made with.
    """
    rows = study.store.read(MadeWith, _place(asset, partition))
    if not rows:
        return None
    then, now = {row.setting: row.value for row in rows}, settings_now(study, asset)
    usual = _flat_settings(Settings(), SECTIONS[asset])
    told = {setting.partition(".")[0] for setting in then}
    found = []
    for setting in [*now, *(setting for setting in then if setting not in now)]:
        section, dot, key = setting.partition(".")
        if section not in told or (not dot and (setting not in then or setting not in now)):
            continue
        if dot and "." not in key and key not in type(study.settings.section(section)).model_fields:
            continue  # of an earlier version
        # A key that came with a later version stood at its default before.
        before, present = then.get(setting, usual.get(setting)), now.get(setting)
        if before != present:
            found.append(Difference(setting, before, present))
    return found


def settings_now(study: Study, asset: str) -> dict[str, str]:
    """Return the settings in force that decide what an asset makes, with their values as JSON."""
    sections = SECTIONS[asset]
    served = asset == "trajectories" and study.settings.rollouts.engine == "openai"
    if served:  # whatever the base model is, the server's model acts
        sections = tuple(name for name in sections if name != "base_model")
    found = _flat_settings(study.settings, sections)
    if asset == "trajectories" and not served:
        for row in study.store.read(BaseCheckpoint):
            found[BASE] = json.dumps(row.base_id)
    return found


def rolled_out(study: Study) -> list[str]:
    """Return the task batches whose trajectories were played here, sorted; also those whose file is lost."""
    others = set(study.store.partitions(TrajectoryHead)) - set(batches(study))
    return sorted(batch for batch in others if _was_played(study, batch))


def _was_played(study: Study, batch: str) -> bool:
    try:
        return played_here(study, batch) > 0
    except InputError:
        return True


def made_otherwise(study: Study) -> list[str]:
    """Say of each batch that was played here with other settings than those in force which these were."""
    said = []
    for batch in rolled_out(study):
        heads = study.store.frame(TrajectoryHead, batch)
        found = differences(study, "trajectories", batch)
        if found is None:  # of a home of an earlier version: all that is known is whose tasks they are
            now = json.dumps(study.settings.targets.name)
            targets = (json.dumps(name) for name in sorted(set(heads["target"])))
            found = [Difference("targets.name", name, now) for name in targets if name != now]
        if found:
            n = count(heads.height, "rollout")
            said.append(f"{batch}: these {n} were made with other settings: {in_words(found)}.")
    return said


def in_words(found: list[Difference]) -> str:
    """Say which settings differ; of another target its name says enough."""
    if any(one.setting == "targets.name" for one in found):
        found = [one for one in found if one.setting == "targets.name" or one.setting[:8] != "targets."]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(map(str, found[:SHOWN])) + more


def _flat_settings(settings: Settings, sections: tuple[str, ...]) -> dict[str, str]:
    return {
        name: value
        for section in sections
        for name, value in _flat(section, settings.section(section).deciding())
    }


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return the leaves of nested settings; nothing that opens a door is among them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
        return
    last = name.rpartition(".")[2]
    if value and isinstance(value, str):
        if last.endswith("url"):
            value = ",".join(public_url(url.strip()) for url in value.split(","))
        elif _SECRET.search(last):
            value = f"hidden {text_version(value)[:8]}"
    yield name, json.dumps(value, ensure_ascii=False, sort_keys=True)


def _place(asset: str, partition: str) -> str:
    return f"{asset}={partition}" if partition else asset


def live_in_use(study: Study) -> bool:
    """Whether anything belongs to the live target, or nothing is here yet.

    The settings name a live target always, the embedded one by default. Where all trajectories are those of
    other targets, that name alone is no wish to train its agent; another name is.
    """
    section = study.settings.targets
    if section.path or section.name != Targets().name:
        return True
    if study.live_batch in rolled_out(study) or any(
        row.pass_rate is not None for row in study.store.read(BaseCheckpoint)
    ):
        return True
    return not (batches(study) or study.store.partitions(TrajectoryHead))


def is_foreign(study: Study, batch: str) -> bool:
    """Whether a batch was, or is to be, rolled out on another target than the one the settings name."""
    if batch == study.live_batch or batch in batches(study):
        return False
    if batch in task_batches(study):
        rows = task_inbox(study).read(Task, batch)
        return bool(rows) and rows[0].target != study.settings.targets.name
    return True


def marked_items(study: Study) -> dict[tuple[str, str], str]:
    """Return (asset, partition) to why it is due: marks in the home, and audits whose seeds are lost."""
    return lost_permutations(study) | due_items(study.home)
