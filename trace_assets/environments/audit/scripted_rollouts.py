"""Scripts of actions, and scripted episodes of an environment in the sandbox."""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over, leaves_words
from trace_assets.environments.contract.description import mutation_marked
from trace_assets.records import ToolSpec
from trace_assets.sandbox import EnvironmentFault, SandboxPool, Session, Timeout
from trace_assets.sandbox.config import EVERYWHERE, Conditions
from trace_assets.sandbox.controls import Reservoir
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.targets.sandboxed import checked_verdict

Action = dict[str, Any]
HANDED_OVER = re.compile(
    r"\bhand(?:s|ed|ing)? (?:over (?:an? |the |this )?{0}|(?:an? |the |this )?{0} over)\b".format(
        "(?:user|customer|client|caller|patient|donor|member|guest|passenger|person|case|conversation|call)"
    ),
    re.IGNORECASE,
)
"""How a description says that whoever is served is handed to somebody else; a key or a parcel is nobody."""
_NOTES_DOWN = re.compile(
    r"(?:adds?|appends?|attach(?:es)?|enters?|jots?|leaves?|makes?|puts?|records?|saves?|writes?)(?: down)? "
    r"(?:an? |the |some )?(?:\w+ )?(?:notes?|remarks?|comments?|memos?|annotations?)\b",
    re.IGNORECASE,
)
"""How a description begins of a tool that leaves a note; who sends one tells somebody something."""
ALIKE_ON = 3
"""Seeds on which an answer must be the same for it to show nothing."""
RECORDED = 32
"""Episodes of an audit that are kept, to be played again wherever its environment is used."""


@dataclass
class Played:
    """One finished episode.

    Attributes:
        first: The first messages.
        answers: What each step returned.
        actions: The messages that were played: those after the episode's end are not.
        verdict: As the environment gave it, checked.
        reset_seconds: Wall time of the reset.
        step_seconds: Wall time of all steps.
    """

    seed: int
    first: list[dict[str, Any]]
    answers: list[dict[str, Any]] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    verdict: dict[str, Any] = field(default_factory=dict)
    reset_seconds: float = 0.0
    step_seconds: float = 0.0

    @property
    def reward(self) -> float:
        """The reward."""
        return float(self.verdict["reward"])

    @property
    def success(self) -> bool:
        """Whether the environment calls it a success."""
        return bool(self.verdict["success"])


class Budget:
    """Wall time that an audit may spend waiting for one environment: a slow one must not hold it for hours.

    Args:
        seconds: The most, over all calls.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.limit, self.spent = seconds, 0.0

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.limit

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time of a call.

        Raises:
            Timeout: Nothing is left.
        """
        if self.over:
            raise Timeout(f"the environment kept the audit waiting for more than {self.limit:g} s in all")
        start = time.monotonic()
        try:
            yield
        finally:
            self.spent += time.monotonic() - start


class Probe:
    """Plays episodes of one module; oracle scripts and first messages are asked for once.

    Every method raises `SandboxError` for faults of the environment or its sandbox.

    Args:
        pool: Where it runs.
        source: The module.
        known: Tools of which it is known whether they change anything; the others are judged by their name.
        budget: Time that may be spent; None bounds nothing.
        secret: Feeds the choices of attackers and mutants: the module knows its seed and this program, and
            must not know what they will do.

    Attributes:
        record: Finished episodes, a few drawn of all: they are played again when the environment is used.
    """

    def __init__(
        self,
        pool: SandboxPool,
        source: str,
        known: Sequence[ToolSpec] = (),
        budget: Budget | None = None,
        secret: str = "",
    ) -> None:
        self.pool, self.source = pool, source
        self.budget = budget or Budget()
        self.record = Reservoir[Played](RECORDED)
        self._secret = secret
        self._known = {tool.name: bool(tool.mutates) for tool in known if tool.mutates is not None}
        self._environment = pool.environment(source)
        self._oracles: dict[int, list[Action]] = {}
        self._first: dict[int, list[dict[str, Any]]] = {}
        self._best: dict[int, Played] = {}
        self._aside: dict[int, list[dict[str, Any]]] = {}

    def chance(self, purpose: str) -> random.Random:
        """Return the source of what is left to chance for a purpose, the same one each time."""
        return random.Random(f"{self._secret}/{purpose}")

    def tools(self) -> list[dict[str, Any]]:
        """Return the environment's tool schemas."""
        with self.budget.spending():
            return self._environment.tools()

    def writes(self, name: str) -> bool:
        """Tell whether a tool changes anything."""
        if name not in self._known:
            spec = ToolSpec(name=name, description=self._said_of(name))
            self._known[name] = bool(mutation_marked([spec])[0].mutates)
        return self._known[name]

    def hands_over(self, name: str) -> bool:
        """Tell whether a tool hands whom it serves to somebody else, by its name or what is said of it."""
        return hands_over(name) or bool(HANDED_OVER.search(self._said_of(name)))

    def only_acknowledges(self, name: str) -> bool:
        """Tell whether a tool is answered alike wherever the oracle has called it, on three seeds or more.

        Such an answer shows nothing, so it is no look, whatever the tool's name: a wait, a step, a deed.
        """
        told: list[str] = []
        for played in self._best.values():
            made = {one["id"] for one in calls_in(played.actions) if one["name"] == name}
            own = [
                m for answer in played.answers for m in answer["messages"] if m.get("tool_call_id") in made
            ]
            told += [str(m.get("content") or "") for m in own[:1]]
        return len(told) >= ALIKE_ON and len(set(told)) == 1

    def leaves_words(self, name: str) -> bool:
        """Tell whether a tool leaves a note and changes nothing else, by its name or what is said of it."""
        return leaves_words(name) or bool(_NOTES_DOWN.match(self._said_of(name)))

    def _said_of(self, name: str) -> str:
        declared = (tool.get("function") or {} for tool in self.tools())
        return next((str(one.get("description") or "") for one in declared if one.get("name") == name), "")

    def oracle(self, seed: int) -> list[Action]:
        """Return the environment's own solution of a seed."""
        if seed not in self._oracles:
            with self.budget.spending():
                self._oracles[seed] = self._environment.oracle(seed)
        return self._oracles[seed]

    def first(self, seed: int) -> list[dict[str, Any]]:
        """Return the first messages of a seed."""
        if seed not in self._first:
            with self.budget.spending(), self._environment.reset(seed) as session:
                self._first[seed] = session.messages
        return self._first[seed]

    def play(self, seed: int, actions: Sequence[Action]) -> Played:
        """Play a script in the pool's sandbox for this environment."""
        start = time.perf_counter()
        with self.budget.spending(), self._environment.reset(seed) as session:
            played = _finish(session, actions, time.perf_counter() - start)
        self.record.see(played)
        return played

    def walk(self, seed: int, actions: Sequence[Action]) -> list[dict[str, Any]]:
        """Play a script without asking for the verdict; return what each step answered."""
        answers: list[dict[str, Any]] = []
        with self.budget.spending(), self._environment.reset(seed) as session:
            for action in actions:
                answers.append(session.step(action))
                if session.done or session.truncated:
                    break
        return answers

    def ask(self, seed: int, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Make calls one after the other; return the tool message that answers each.

        An episode that ends is begun again, so later calls may find what earlier ones changed undone.

        Raises:
            EnvironmentFault: A call was not answered by a tool message.
        """
        with self.budget.spending():
            return self._ask(seed, calls)

    def _ask(self, seed: int, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        session = self._environment.reset(seed)
        try:
            for number, one in enumerate(calls, start=1):
                if session.done or session.truncated:
                    session.close()
                    session = self._environment.reset(seed)
                call = {"id": f"ask_{number}", **one}
                answer = session.step({"role": "assistant", "tool_calls": [call]})
                told = [m for m in answer["messages"] if m.get("tool_call_id") == call["id"]]
                if not told:
                    raise EnvironmentFault(f"the call of {one['name']} was not answered")
                messages.append(told[0])
        finally:
            session.close()
        return messages

    def best(self, seed: int) -> Played:
        """Play the oracle's script, once a seed."""
        if seed not in self._best:
            self._best[seed] = self.play(seed, self.oracle(seed))
        return self._best[seed]

    def aside(self, seed: int) -> list[dict[str, Any]]:
        """Return what looks show that the oracle leaves out, asked for once a seed."""
        if seed not in self._aside:
            answers = self.walk(seed, numbered(looks_aside(self, seed)))
            self._aside[seed] = [message for answer in answers for message in answer["messages"]]
        return self._aside[seed]

    @contextmanager
    def fresh(self, conditions: Conditions = EVERYWHERE) -> Iterator[FreshProbe]:
        """Give a sandbox in which nothing has run yet; it is thrown away afterwards."""
        box = self.pool.fresh(self._environment, conditions)
        try:
            yield FreshProbe(box, self.budget)
        finally:
            box.fail()


class FreshProbe:
    """Plays in one sandbox of its own."""

    def __init__(self, box: Sandbox, budget: Budget) -> None:
        self._box, self._budget = box, budget

    def age(self, episodes: int) -> None:
        """Begin and give up so many episodes."""
        with self._budget.spending():
            for seed in range(episodes):
                Session(self._box.leaf, seed).close()

    def play(self, seed: int, actions: Sequence[Action]) -> Played:
        """Play a script in this sandbox."""
        start = time.perf_counter()
        with self._budget.spending(), Session(self._box.leaf, seed) as session:
            return _finish(session, actions, time.perf_counter() - start)


def _finish(session: Session, actions: Sequence[Action], reset_seconds: float) -> Played:
    played = Played(seed=session.seed, first=session.messages, reset_seconds=reset_seconds)
    start = time.perf_counter()
    for action in actions:
        played.answers.append(session.step(action))
        if session.done or session.truncated:
            break
    played.step_seconds = time.perf_counter() - start
    played.actions = list(session.actions)
    played.verdict = session.verdict()
    checked_verdict(played.verdict)
    return played


MOST_THINGS = 8
"""Objects that an attacker tries itself on."""
Attacker = Callable[[Probe, int], list[Action]]
Call = dict[str, Any]


class Unsupported(Exception):
    """This attack cannot be tried on this environment; the message says why."""


def say(text: str) -> Action:
    """Return a message without a call."""
    return {"role": "assistant", "content": text}


def call(name: str, arguments: dict[str, Any]) -> Action:
    """Return a message with one call."""
    return {"role": "assistant", "tool_calls": [{"id": "attack_0", "name": name, "arguments": arguments}]}


def again(one: Call) -> Action:
    """Return a message that makes a call of a script once more."""
    return call(one["name"], one["arguments"])


def numbered(actions: Sequence[Action]) -> list[Action]:
    """Give every call of a script its own id."""
    script, number = [], 0
    for action in actions:
        calls = []
        for one in action.get("tool_calls") or ():
            number += 1
            calls.append({**one, "id": f"attack_{number}"})
        script.append({**action, "tool_calls": calls} if calls else action)
    return script


def request(probe: Probe, seed: int) -> str:
    """Return what the user asks for."""
    return next((m.get("content") or "" for m in reversed(probe.first(seed)) if m["role"] == "user"), "")


def calls_in(actions: Sequence[Action]) -> list[Call]:
    """Return the calls of a script, in order."""
    return [one for action in actions for one in action.get("tool_calls") or ()]


def closing(actions: Sequence[Action]) -> str:
    """Return the last words of a script."""
    return next((a["content"] for a in reversed(actions) if a.get("content")), "Done.")


def words_for(probe: Probe, seed: int) -> str:
    """Return words to close with: the oracle's, where its deeds are what counts.

    Where it changes nothing, its words are the deed, and who knows them is no attacker: then those of
    another seed.
    """
    script = probe.oracle(seed)
    if any(probe.writes(one["name"]) for one in calls_in(script)):
        return closing(script)
    others = (closing(probe.oracle(other)) for other in range(seed + 1, seed + 8))
    return next((words for words in others if words != closing(script)), "Done.")


def thing_of(one: Call) -> str:
    """Return what a call is about: its first argument.

    >>> thing_of({"name": "get_order", "arguments": {"order": "A1", "full": True}})
    'A1'
    """
    return str(next(iter(one["arguments"].values()), ""))


def things(calls: Sequence[Call]) -> list[str]:
    """Return what calls are about, each once, in order."""
    return list(dict.fromkeys(thing_of(one) for one in calls))


_NAMES = re.compile(r"[\w#-]*\d[\w-]*")
MOST_LOOKS = 12
"""Calls with which it is looked for other objects on one seed."""


def shown_like(probe: Probe, seed: int, thing: str) -> list[str]:
    """Return other names built as a thing's, of what the oracle is shown and what other looks show."""
    return [one for one in names_like(probe, seed, thing) if one != thing]


def names_like(probe: Probe, seed: int, thing: str) -> list[str]:
    """Return the names that are shown and built as a thing's, in order, the thing's own among them."""
    best = probe.best(seed)
    told = [*best.first, *(m for answer in best.answers for m in answer["messages"]), *probe.aside(seed)]
    text = "\n".join(str(one.get("content") or "") for one in told)
    found = [one for one in _NAMES.findall(text) if _build(one) == _build(thing)]
    return list(dict.fromkeys(found)) if re.search(r"\d", thing) else []


def _build(name: str) -> str:
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", name))


def looks_aside(probe: Probe, seed: int) -> list[Action]:
    """Return looks with the tools that the oracle leaves out, by each name of the request."""
    used = {one["name"] for one in calls_in(probe.oracle(seed))}
    names = list(dict.fromkeys(_NAMES.findall(request(probe, seed))))[:MOST_THINGS]
    found = []
    for tool in probe.tools():
        name, given = tool["function"]["name"], properties(tool)
        if name not in used and not probe.writes(name) and len(given) == 1:
            found += [call(name, {key: one}) for key in given for one in names]
    return found[:MOST_LOOKS]


def arguments_for(tool: dict[str, Any], probe: Probe, seed: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return arguments for a tool, one set for each object that the oracle acts on.

    A value comes from the oracle's own calls where one has an argument of that name, else from the schema,
    else from the request.
    """
    used = calls_in(probe.oracle(seed))
    words = re.findall(r"\w+", request(probe, seed)) or ["none"]
    sets: list[dict[str, Any]] = []
    for thing in things(used)[:MOST_THINGS] or [""]:
        same = [one for one in used if thing_of(one) == thing] + used
        same.sort(key=lambda one: one["name"] != tool["function"]["name"])
        values: dict[str, Any] = {}
        for name, schema in properties(tool).items():
            known = next((o["arguments"][name] for o in same if _about(o, thing, name)), None)
            values[name] = known if known is not None else _legal(schema, words, rng)
            if "enum" in schema and values[name] not in schema["enum"]:
                values[name] = schema["enum"][0]
        if values not in sets:
            sets.append(values)
    return sets


def properties(tool: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the schemas of a tool's arguments; one that is a mere truth value says nothing."""
    declared = tool["function"]["parameters"].get("properties", {})
    return {name: schema if isinstance(schema, dict) else {} for name, schema in declared.items()}


def _about(one: Call, thing: str, name: str) -> bool:
    """Whether a call tells an argument's value for an object; what the object is, only its own calls do."""
    if name not in one["arguments"]:
        return False
    return thing_of(one) == thing or name != next(iter(one["arguments"]))


def _legal(schema: dict[str, Any], words: Sequence[str], rng: random.Random) -> Any:
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return kinds.get(schema.get("type", "string"), rng.choice(words))


def tool_named(probe: Probe, name: str) -> dict[str, Any]:
    """Return a declared tool."""
    return next(tool for tool in probe.tools() if tool["function"]["name"] == name)


def reads_everything(probe: Probe, seed: int) -> list[Action]:
    """Return one call of every reading tool on every object."""
    rng = probe.chance(f"reads/{seed}")
    return [
        call(tool["function"]["name"], arguments)
        for tool in probe.tools()
        if not probe.writes(tool["function"]["name"])
        for arguments in arguments_for(tool, probe, seed, rng)
    ]
