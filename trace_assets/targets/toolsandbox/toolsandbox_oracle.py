"""What reaches the milestones of a scenario, read off the milestones themselves.

A milestone says what a database, a call or a message must look like; each such target is turned into the
call or the message that brings it about, in an order that their graph allows. Values that a milestone takes
from an earlier result are taken from that result: the solution is played while it is made.
"""

from __future__ import annotations

import ast
import json
from datetime import datetime
from typing import Any

import networkx
from tool_sandbox.common.evaluation import (
    addition_similarity,
    guardrail_similarity,
    removal_similarity,
    update_similarity,
)
from tool_sandbox.common.execution_context import DatabaseNamespace, RoleType

EVERYTHING: dict[str, dict[str, Any]] = {
    "search_contacts": {"is_self": False},
    "search_messages": {"creation_timestamp_lowerbound": 1e9},
    "search_reminder": {"reminder_timestamp_lowerbound": 1e9},
}
"""Arguments that find all there is, for searches of which a milestone names no argument; 1e9 is in 2001."""
SETTERS = {
    "cellular": "set_cellular_service_status",
    "location_service": "set_location_service_status",
    "low_battery_mode": "set_low_battery_mode_status",
    "wifi": "set_wifi_status",
}
ROWS = {
    DatabaseNamespace.CONTACT: ("add_contact", "modify_contact", "remove_contact", "person_id"),
    DatabaseNamespace.REMINDER: ("add_reminder", "modify_reminder", "remove_reminder", "reminder_id"),
}
FIELDS = {
    DatabaseNamespace.CONTACT: ("name", "phone_number", "relationship"),
    DatabaseNamespace.REMINDER: ("content", "reminder_timestamp", "latitude", "longitude"),
}
NOTHING_TO_DO = "I cannot do that with the tools and the information that I have."
GOODBYE = "Goodbye."


class _Plan:
    """A solution in the making."""

    def __init__(self, milestones: Any, step: Any) -> None:
        self._milestones, self._step = milestones, step
        self.messages: list[Any] = []
        self._results: dict[int, Any] = {}
        """What the call of a milestone returned."""
        self._over = False

    def call(self, name: str, arguments: Any) -> Any:
        """Make a call; return its result."""
        call = {"id": f"oracle_{len(self.messages)}", "name": name, "arguments": arguments}
        answers = self._play({"role": "assistant", "tool_calls": [call]})
        if not answers or answers[0]["is_error"]:
            return None
        try:
            return ast.literal_eval(answers[0]["content"])
        except (SyntaxError, ValueError):
            return answers[0]["content"]

    def say(self, text: str) -> None:
        """Say something."""
        self._play({"role": "assistant", "content": text})

    def _play(self, message: Any) -> Any:
        if self._over:
            return []
        self.messages.append(message)
        seen = self._step(message)
        self._over = seen["done"] or seen["truncated"]
        return seen["messages"]

    def reach(self, index: int) -> None:
        """Bring about one milestone."""
        wanted = [
            one
            for one in self._milestones[index].snapshot_constraints
            if one.snapshot_constraint is not guardrail_similarity
        ]
        if not wanted:
            return
        first = wanted[0]
        rows = first.target_dataframe.to_dicts()
        if first.database_namespace == DatabaseNamespace.SANDBOX:
            if rows[0]["sender"] == RoleType.AGENT:
                self.say(self._words(wanted[0]))
            else:
                self._results[index] = self._traced(index, wanted)
        elif first.database_namespace == DatabaseNamespace.SETTING:
            for column, value in rows[0].items():
                if column in SETTERS:
                    self.call(SETTERS[column], {"on": value})
        elif first.database_namespace == DatabaseNamespace.MESSAGING:
            row = rows[0]
            arguments = {"phone_number": row["recipient_phone_number"], "content": row["content"]}
            self.call("send_message_with_phone_number", arguments)
        else:
            self._rows(first, rows)

    def _rows(self, constraint: Any, rows: Any) -> None:
        kind, how = constraint.database_namespace, _function(constraint.snapshot_constraint)
        add, modify, remove, key = ROWS[kind]
        for row in rows:
            fields = {name: row[name] for name in FIELDS[kind] if row.get(name) is not None}
            if how is addition_similarity:
                self.call(add, fields)
            elif how is update_similarity:
                self.call(modify, {key: row[key], **fields})
            elif how is removal_similarity:
                self.call(remove, {key: row[key]})

    def _traced(self, index: int, wanted: Any) -> Any:
        """Make the call that a milestone wants to see, with what it takes from earlier results."""
        row = wanted[0].target_dataframe.to_dicts()[0]
        trace = json.loads(row["tool_trace"])
        trace = trace[0] if isinstance(trace, list) else trace
        name, arguments = trace["tool_name"], dict(trace["arguments"])
        for one in wanted:
            arguments = {**self._taken(one), **arguments}
        if not arguments and name == "datetime_info_to_timestamp":
            arguments = self._moment(index)
        return self.call(name, arguments or EVERYTHING.get(name, {}))

    def _taken(self, constraint: Any) -> Any:
        """Return what a constraint's own extractor takes from the result of the milestone it refers to."""
        how = constraint.snapshot_constraint
        extract = getattr(how, "keywords", {}).get("extractor")
        if extract is None:
            return {}
        found = extract({"result": self._results[constraint.reference_milestone_node_index]})
        return found[0] if found else {}

    def _words(self, constraint: Any) -> str:
        text = str(constraint.target_dataframe.to_dicts()[0]["content"])
        taken = self._taken(constraint)
        return text.format(**taken) if taken else text

    def _moment(self, index: int) -> Any:
        """Return the date of the reminder that a later milestone wants."""
        for milestone in self._milestones[index + 1 :]:
            for one in milestone.snapshot_constraints:
                if one.target_dataframe is None or "reminder_timestamp" not in one.target_dataframe.columns:
                    continue
                moment = datetime.fromtimestamp(one.target_dataframe["reminder_timestamp"][0])
                parts = ("year", "month", "day", "hour", "minute", "second")
                return {part: getattr(moment, part) for part in parts}
        return {}


def _function(measure: Any) -> Any:
    """Return what a measure is, without the arguments that were bound to it."""
    return getattr(measure, "func", measure)


def _order(matcher: Any) -> list[int]:
    """Return the milestones in an order that their graph allows, the settings as early as it does.

    A milestone's guardrails hold every database still since those before it: a setting that is changed
    between two milestones of which one follows the other breaks them.
    """

    def first(index: int) -> Any:
        kinds = {one.database_namespace for one in matcher.milestones[index].snapshot_constraints[:1]}
        return (DatabaseNamespace.SETTING not in kinds, index)

    return list(networkx.lexicographical_topological_sort(matcher.milestone_dag, key=first))


def solution(scenario: Any, step: Any) -> Any:
    """Return the messages of an agent that reaches every milestone of a scenario that has just begun.

    Where there is none, and only minefields, the agent says that it cannot do what is asked.
    """
    milestones = scenario.evaluation.milestone_matcher.milestones
    plan = _Plan(milestones, step)
    for index in _order(scenario.evaluation.milestone_matcher):
        plan.reach(index)
    if not plan.messages:
        plan.say(NOTHING_TO_DO)
    plan.say(GOODBYE)
    return plan.messages
