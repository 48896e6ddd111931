"""A scripted agent that knows a recipe's language and has every capability, or all but one.

It never asks the environment for its solution: it reads the request, looks, acts and answers, and knows
of a module only what an agent of the target has learned (wordings, conditions, how outcomes are told).
"""

from __future__ import annotations

import json
import re
from typing import Any

SLOT = r"[\w#@-]+(?:\.[\w-]+)*(?: [\w#-]+)*?"


class CarefulAgent:
    """Plays episodes of a recipe's module.

    Args:
        module: The executed module.
        lacks: A detector family: the agent has exactly that deficit.
    """

    def __init__(self, module: Any, lacks: str = "") -> None:
        self.module, self.plan, self.lacks = module, module.PLAN, lacks
        self.request = self.user = ""
        self.ended = False
        self.number = 0

    def play(self, seed: int) -> dict[str, Any]:
        """Play one episode and return its verdict."""
        self.ended, self.number = False, 0
        self.request = self.user = self.module.reset(seed)[-1]["content"]
        wishes = self._understood(self.user)
        assert wishes, f"not understood: {self.user}"
        if self.lacks in ("object_untouched", "ended_with_work_open"):
            wishes = wishes[:1]
        said = [words for words in [self._serve(*one) for one in wishes] if words]
        if not self.ended:
            self._say(" ".join(said) or "Done.")
        verdict: dict[str, Any] = self.module.verdict()
        return verdict

    # -- speaking and calling ------------------------------------------------------------------------------

    def _step(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        if self.ended:
            return []
        step = self.module.step({"role": "assistant", **message})
        self.ended = step["done"] or step["truncated"]
        messages: list[dict[str, Any]] = step["messages"]
        return messages

    def _say(self, text: str) -> None:
        told = self._step({"content": text})
        self.user = told[-1]["content"] if told else ""

    def _call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        self.number += 1
        told = self._step({"tool_calls": [{"id": f"c{self.number}", "name": name, "arguments": arguments}]})
        return (told[0]["content"], told[0]["is_error"]) if told else ("", True)

    def _look(self, identifier: str) -> tuple[str, bool]:
        return self._call(self.plan["read"], {self.plan.get("read_key", self.plan["key"]): identifier})

    # -- understanding -------------------------------------------------------------------------------------

    def _understood(self, text: str) -> list[tuple[dict[str, Any], dict[str, str], dict[str, str]]]:
        found = []
        for wish in [*self.plan["wishes"], *self.plan.get("questions", ())]:
            for wording in [*wish["wordings"], *wish.get("unsaid", ())]:
                for match in self._pattern(wording["text"]).finditer(text):
                    found.append((match, wish, wording["arguments"]))
        found.sort(key=lambda one: one[0].start() - one[0].end())
        taken: list[Any] = []
        for one in found:
            if all(one[0].end() <= o[0].start() or one[0].start() >= o[0].end() for o in taken):
                taken.append(one)
        taken.sort(key=lambda one: one[0].start())
        return [(wish, arguments, match.groupdict()) for match, wish, arguments in taken]

    def _pattern(self, text: str) -> re.Pattern[str]:
        seen: set[str] = set()

        def group(match: re.Match[str]) -> str:
            name = match.group(1)
            if name in seen:
                return f"(?P={name})"
            seen.add(name)
            known = self.plan["values"].get(name.rstrip("0123456789"))
            choices = (
                "|".join(sorted((re.escape(str(v)) for v in known), key=lambda v: -len(v))) if known else SLOT
            )
            return f"(?P<{name}>{choices})"

        escaped = re.sub(r"\\\{(\w+)\\\}", group, re.escape(text))
        return re.compile(escaped + r"(?![\w#])", re.IGNORECASE)

    # -- serving -------------------------------------------------------------------------------------------

    def _serve(self, wish: dict[str, Any], arguments: dict[str, str], found: dict[str, str]) -> str:
        identifier = found.get(arguments[self.plan["key"]], "")
        if not identifier:
            identifier = (
                self._asked_for() if self.lacks != "unsupported_argument" else self.plan["identifiers"][0]
            )
            if not identifier:
                return ""
        record: dict[str, Any] = {}
        if self.lacks not in ("write_without_read", "skipped_check"):
            identifier, record = self._found(identifier)
            if not record:
                return ""
        if self.lacks == "empty_turn":
            self._say(" ")
        guard = wish["guard"]
        if (
            guard
            and record
            and self._forbids(guard, record, {name: found.get(slot, "") for name, slot in arguments.items()})
            and self.lacks
            not in (
                "write_against_state",
                "write_against_policy",
                "write_against_rule",
                "write_past_date",
                "write_on_kind",
                "unanswered_state",
            )
        ):
            return self._refrained(wish, arguments, found, identifier, record)
        if wish["reads_only"]:
            return self._told(wish, found, record)
        return self._changed(wish, arguments, found, identifier, record)

    def _forbids(self, guard: dict[str, Any], record: dict[str, Any], given: dict[str, str]) -> bool:
        if "argument" in guard:
            return given[guard["argument"]] in guard["forbidden"]
        if "rule" not in guard:
            return record[guard["field"]] in guard["forbidden"]
        return not any(
            record[one["field"]] in one["met"] and one["said"] in self.request for one in guard["rule"]
        )

    def _asked_for(self) -> str:
        """Ask for the value that was left out; empty when it cannot be had."""
        self._say(self.plan["question"])
        before, _, after = str(self.plan.get("answer", "")).partition("{value}")
        if self.ended or not self.user.startswith(before):
            if not self.ended:
                self._say("Then nothing can be done: " + self.plan["question"])
            return ""
        return self.user[len(before) : len(self.user) - len(after)]

    def _found(self, identifier: str) -> tuple[str, dict[str, Any]]:
        forms = [identifier, identifier.swapcase()]
        sign = self.plan["identifiers"][0][0]
        forms += [] if sign.isalnum() else [sign + identifier]
        if self.lacks == "unrecovered_error":
            forms = forms[:1]
        for form in dict.fromkeys(forms):
            for _ in range(3 if self.lacks == "idle_loop" else 1):
                answer, is_error = self._look(form)
            if is_error and self.lacks == "repeated_error":
                answer, is_error = self._look(form)
            if not is_error:
                return form, json.loads(answer)
        if self.lacks == "empty_turn":
            self._say("")
        if self.lacks == "claim_without_write":
            self._say(f"It is {self.plan['claims'][0]} now.")
        for _ in range(4):
            if not self.ended:
                self._say("I cannot find it.")
        return identifier, {}

    def _refrained(
        self, wish: dict[str, Any], arguments: Any, found: Any, identifier: str, record: dict[str, Any]
    ) -> str:
        guard = wish["guard"]
        if guard["instead"]:
            given = {**guard["arguments"]}
            if self.plan["key"] in given:
                given[self.plan["key"]] = identifier
            self._call(guard["instead"], given)
            return str(guard["closing"]["text"])
        for _ in range(6):
            if not self.ended:
                self._say("I am sorry, that is not possible.")
                if self.lacks == "write_after_refusal":
                    return self._changed(wish, arguments, found, identifier, record)
        return ""

    def _changed(
        self,
        wish: dict[str, Any],
        arguments: dict[str, str],
        found: dict[str, str],
        identifier: str,
        record: dict[str, Any],
    ) -> str:
        given: dict[str, Any] = {}
        for argument, slot in arguments.items():
            if argument == self.plan["key"]:
                given[argument] = identifier
            elif argument in self.plan.get("copies", {}).get(wish["tool"], {}):
                names = self.plan["copies"][wish["tool"]][argument]
                given[argument] = [{name: item[name] for name in names} for item in record.get(argument, ())]
            elif slot in found:
                given[argument] = self._typed(argument, found[slot], record)
            elif self.lacks == "unsupported_argument":
                given[argument] = self.plan["values"][argument][0]
            elif not (value := self._asked_for()):
                return ""
            else:
                given[argument] = self._typed(argument, value, record)
            if argument in self.plan.get("wraps", {}).get(wish["tool"], ()):
                given[argument] = [given[argument]]
        if "agrees" in self.plan and self.lacks != "write_without_consent":
            self._say(f"I would now do this to {identifier}. Shall I?")
            if self.user != self.plan["agrees"]:
                return "It stays as it is."
        self._call(wish["tool"], given)
        if self.lacks != "unverified_write":
            answer, is_error = self._look(identifier)
            if not is_error and not self._took(wish, given, json.loads(answer)):
                self._call(wish["tool"], given)
                self._look(identifier)
        return self._told(wish, found, record)

    def _took(self, wish: dict[str, Any], given: dict[str, Any], record: dict[str, Any]) -> bool:
        """Whether the record shows a change, as far as it can show it."""
        if any(record[k] != v for k, v in self.plan.get("effects", {}).get(wish["tool"], {}).items()):
            return False
        part = [one for one in record.values() if isinstance(one, dict)]
        items = [i for one in record.values() if isinstance(one, list) for i in one if isinstance(i, dict)]
        chosen = [i for i in items if any(given.get(name) in i.values() for name in wish["selects"])]
        for name, value in given.items():
            if name not in wish["selects"] and not isinstance(value, list):
                for held in [record, *part, *chosen]:
                    if name in held and held[name] != value:
                        return False
        return True

    def _typed(self, argument: str, value: str, record: dict[str, Any]) -> Any:
        known = self.plan["values"].get(argument, ())
        held = record.get(argument)
        return next((one for one in known if str(one) == value), held if str(held) == value else value)

    def _told(self, wish: dict[str, Any], found: dict[str, str], record: dict[str, Any]) -> str:
        text = str(wish["closing"]["text"])
        for field in wish["closing"]["fields"]:
            seen = self.plan["record"]["properties"][field]["enum"]
            text = text.replace("{." + field + "}", str(record.get(field, seen[0])))
        for slot, value in found.items():
            text = text.replace("{" + slot + "}", value)
        return text
