"""The contract of each target: what its environments are held to, read or drawn from trajectories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from trace_assets.environments.audit.check import Purpose
from trace_assets.environments.contract.description import (
    TargetContract,
    contract_of,
    extract_contract,
    read_description,
    read_tools,
    tools_of,
    write_description,
)
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, ContractRow, DecisionPattern, Trajectory, TrajectoryHead
from trace_assets.records.table import polars_schema
from trace_assets.resources.inbox import batches, inbox
from trace_assets.store import Store
from trace_assets.store.item_locks import mark_due
from trace_assets.store.tables import WHOLE
from trace_assets.store.trajectories import read_some
from trace_assets.study import Study

MAX_TRAJECTORIES = 2000
"""A contract is read from so many trajectories at most: those with the smallest hashes of their ids."""
ASSET = "target_contract"


def read_contract(study: Study, target: str | None = None) -> TargetContract:
    """Return the contract of a target, the live one's by default.

    Raises:
        InputError: It was not written yet.
    """
    name = target or study.target.name
    for row in study.store.read(ContractRow):
        if row.target == name:
            return TargetContract.model_validate(row.contract)
    raise InputError(
        f"there is no contract of target '{name}' yet; run `trace sync --select target_contract` first."
    )


def purpose_of(study: Study, capability_id: str) -> Purpose | None:
    """Return what a capability's environment is for, with labelled runs; None where it was not specified."""
    specs = study.store.read(CapabilitySpec, capability_id)
    runs = study.store.read(DecisionPattern, capability_id)
    return Purpose(specs[0], tuple(runs)) if specs else None


def describe_target(study: Study, target: str, tools: Path | None, policy: Path | None) -> bool:
    """Keep the tools and the policy that a person gives for an ingested target.

    Args:
        study: The study; its contracts become due when this is news.
        target: A target of ingested trajectories.
        tools: A file of tool schemas; None keeps what was given before.
        policy: A text file, or a tau2 simulation file that holds the policy; None likewise.

    Returns:
        Whether it is news.

    Raises:
        InputError: A file is not usable, or the target is live and describes itself.
    """
    if target == study.settings.targets.name:
        raise InputError(f"target '{target}' is live and names its tools itself; give no files for it.")
    known = read_description(study.home.descriptions, target)
    given: dict[str, object] = {}
    if tools is not None:
        given |= {"tools": read_tools(tools), "tools_from": tools.name}
    if policy is not None:
        given |= {"policy": read_policy(policy), "policy_from": policy.name}
    news = write_description(study.home.descriptions, known.model_copy(update=given))
    if news:
        mark_due(study.home, ASSET, "", f"the tools or the policy of {target} were given")
    return news


def read_policy(path: Path) -> str:
    """Return the policy in a text file, or the one that a tau2 simulation file was made with.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"the policy {path} cannot be read ({reason}); name a text file.") from error
    if text.lstrip()[:1] != "{":
        return text
    try:
        held = json.loads(text)["info"]["environment_info"]["policy"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text
    return held if isinstance(held, str) else text


def look_up_contract(study: Study, target: str) -> TargetContract:
    """Return a target's contract as it would be written now, from what was ingested or rolled out.

    Raises:
        InputError: The target has no discovery trajectories; the message names those that have.
    """
    found = known_targets(study)
    if target not in found:
        known = ", ".join(found) or "none; bring some in with `trace ingest FILE`"
        raise InputError(f"no trajectories of target '{target}' are here; there are: {known}.")
    return _contract(study, target, _places(study))


def known_targets(study: Study) -> list[str]:
    """Return the targets of which trajectories were ingested or rolled out."""
    return sorted({name for place in _places(study) for name in _targets(*place)})


def summary(contract: TargetContract) -> dict[str, str | int | float]:
    """Return one row on a contract, for tables."""
    lengths = contract.lengths
    return {
        "target": contract.target,
        "tools": len(contract.tools),
        "inferred": len(contract.inferred),
        "user's": len(contract.user_tools),
        "policy": len(contract.policy),
        "runs": contract.n_trajectories,
        "passed": contract.reference.n_successes,
        "answers": sum(shape.n for shape in contract.results),
        "errors": sum(shape.n_errors for shape in contract.results),
        "guards": sum(bool(guard.field) for guard in contract.guards),
        "turns": round(lengths.assistant_turns, 1),
        "calls": round(lengths.tool_calls, 1),
        "fingerprint": contract.fingerprint()[:8],
    }


def rollout_obstacle(study: Study, target: str) -> str:
    """Return why the base policy cannot be rolled out in environments of a target, empty when it can.

    The tiny agent knows the words of its own target only; a server or a folder holds a model of any.
    """
    if target == study.settings.targets.name or study.settings.rollouts.engine == "openai":
        return ""
    return training_obstacle(study, target)


def training_obstacle(study: Study, target: str) -> str:
    """Return why an adapter cannot be trained in environments of a target, empty when it can."""
    live = study.settings.targets.name
    if target == live or study.settings.base_model.path:
        return ""
    return (
        f"the base model is trained from scratch for '{live}' and is not the agent of '{target}'; name a "
        "model that can act there in base_model.path"
    )


def _contract(study: Study, name: str, places: Sequence[tuple[Store, str]]) -> TargetContract:
    """Read one target's contract from batches that may hold its trajectories."""
    if name == study.settings.targets.name:
        # Its own tasks only: tasks that arrive later must not write every environment anew.
        return extract_contract(study.target, _sample(name, [(study.store, study.live_batch)]))
    trajectories = _sample(name, places)
    given = read_description(study.home.descriptions, name)
    tools = given.tools if given.tools.agent else tools_of(trajectories)
    contract = contract_of(name, tools.agent, given.policy, trajectories, user_tools=tools.user)
    if not contract.tools:
        raise InputError(f"the agent of '{name}' calls no tools and none were given, so it has no contract.")
    return contract


def _sample(name: str, places: Sequence[tuple[Store, str]]) -> list[Trajectory]:
    """Return a target's discovery trajectories, a bounded sample that depends on their ids alone."""
    found: list[tuple[str, str, int]] = []
    for number, (store, key) in enumerate(places):
        own = (pl.col("target") == name) & (pl.col("split") == "discovery")
        heads = _scan(store, key).filter(own).select("trajectory_id").collect()
        found += [(_rank(one), one, number) for one in heads["trajectory_id"]]
    ids: dict[int, list[str]] = {}
    for _, one, number in sorted(found)[:MAX_TRAJECTORIES]:
        ids.setdefault(number, []).append(one)
    return [
        trajectory
        for number, own in sorted(ids.items())
        for trajectory in read_some(*places[number], sorted(own))
    ]


def _rank(trajectory_id: str) -> str:
    return hashlib.sha256(trajectory_id.encode()).hexdigest()


def _places(study: Study) -> list[tuple[Store, str]]:
    """Return where trajectories lie: batches as they were ingested, and those that were rolled out."""
    waiting = batches(study)
    rolled_out = [key for key in study.store.partitions(TrajectoryHead) if key not in waiting]
    return [(study.store, key) for key in rolled_out] + [(inbox(study, batch), WHOLE) for batch in waiting]


def _targets(store: Store, key: str) -> list[str]:
    return _scan(store, key).select(pl.col("target").unique()).collect()["target"].to_list()


def _scan(store: Store, key: str) -> pl.LazyFrame:
    if not store.has(TrajectoryHead, key):
        return pl.LazyFrame(schema=polars_schema(TrajectoryHead))
    return store.scan(TrajectoryHead, key)
