"""What ingested files say of their target beside trajectories: the policy, and the tools where listed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.environments.contract.description import (
    TargetDescription,
    read_description,
    tools_in,
    write_description,
)
from trace_assets.errors import InputError
from trace_assets.formats.tau2_file import Tau2File
from trace_assets.records import Task
from trace_assets.resources.inbox import inbox
from trace_assets.study import Study

HEAD_BYTES = 4 << 20
"""Where in a file to look: `info` stands before the simulations."""
_NOTED = "ingested: "


def keep_notes(folder: Path, paths: Sequence[Path]) -> list[str]:
    """Keep what tau2 simulation files say of their targets, unless a person or an earlier file has said it.

    Args:
        folder: Where descriptions of targets lie.
        paths: Files of any form; those of other forms say nothing.

    Returns:
        The targets of which something new is known.
    """
    told = []
    for path in paths:
        noted = noted_in(path)
        if noted is None:
            continue
        known = read_description(folder, noted.target)
        more: dict[str, Any] = {}
        if noted.policy and not known.policy:
            more |= {"policy": noted.policy, "policy_from": noted.policy_from}
        if noted.tools.agent and not known.tools.agent:
            more |= {"tools": noted.tools, "tools_from": noted.tools_from}
        if more and write_description(folder, known.model_copy(update=more)):
            told.append(noted.target)
    return told


def keep_policies(study: Study, given: Iterable[str]) -> None:
    """Keep the policy that all tasks of a target tell alike, unless a person or an earlier file has said it.

    Tasks hold what is expected too, so whoever labels never opens them: the policy, which the agent was
    given, has to lie beside them.

    Args:
        study: With the inbox.
        given: Batches that have just come in.
    """
    told: dict[str, set[str]] = defaultdict(set)
    of: dict[str, str] = {}
    for batch in given:
        tasks = inbox(study, batch).frame(Task).select("target", "domain_policy").unique()
        for target, policy in tasks.iter_rows():
            told[target].add((policy or "").strip())
            of[target] = batch
    for target, policies in sorted(told.items()):
        known = read_description(study.home.descriptions, target)
        if len(policies) != 1 or not (policy := next(iter(policies))) or known.policy:
            continue
        more = {"policy": policy, "policy_from": _NOTED + of[target]}
        write_description(study.home.descriptions, known.model_copy(update=more))


def noted_in(path: Path) -> TargetDescription | None:
    """Return what the head of a tau2 simulation file says of its target, None for other files.

    Of an agent that works alone the policy is left out: the file holds the one of agents that have a user.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES).partition(b'"simulations"')[0]
        content = from_json(head, allow_partial=True)
        file = Tau2File.of(path, {**content, "tasks": [], "simulations": []})
        about = content["info"]["environment_info"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    policy, listed = about.get("policy"), about.get("tool_defs")
    description = TargetDescription(target=file.target)
    if isinstance(policy, str) and policy and not file.solo:
        description = description.model_copy(update={"policy": policy, "policy_from": _NOTED + path.name})
    if listed:
        try:
            tools = tools_in(listed, path.name)
        except InputError:
            return description
        description = description.model_copy(update={"tools": tools, "tools_from": _NOTED + path.name})
    return description
