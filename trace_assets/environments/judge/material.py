"""What a judge is shown of an environment: its policy, its tools, and episodes as the sandbox played them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from trace_assets.diagnosis.llm.json_reply import numbers_in
from trace_assets.diagnosis.llm.request import A, Answer, Question
from trace_assets.diagnosis.llm.transcript import estimate_tokens
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Action, Played, Probe, calls_in
from trace_assets.shipped import prompt

EPISODES = 8
"""Episodes that a judge is shown at the most."""
FEWEST = 4
"""And at the least, however long they are."""
EPISODE_TOKENS = 12_000
"""Of all episodes together, where there are more than the fewest."""
LONGEST_TEXT = 4_000
"""Characters of one message."""
RARE = 3
"""Seeds that must share a value before it is a feature of theirs rather than a name."""


_BREAK = r"(?:\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])"
_FRAME = re.compile(r"(?:(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])|\A)[^\S\n\r]*={5}")
"""Where a text of the environment begins a line as the lines around it begin."""
_BEGINNING = re.compile(rf"{_BREAK}(?=\s*={{5}}|(?:agent says|result|error|user|system):|agent calls )")
"""And where it begins one as the next message would."""
_INDENTED = "\n\t"


@dataclass(frozen=True)
class Episode:
    """One episode that is shown.

    Attributes:
        number: By which the model names it.
        best: What the oracle did.
        idle: What silence is paid.
        unchanged: What the oracle's looks and words are paid without its changes; None where it makes none.
        text: As it is shown, without rewards.
    """

    number: int
    best: Played
    idle: float
    unchanged: float | None
    text: str

    @property
    def checked(self) -> list[str]:
        """Names of what the environment's verdict looks at."""
        return [str(one.get("name"))[:60] for one in self.best.verdict.get("checks") or () if one.get("name")]

    @property
    def seed(self) -> int:
        """What the environment was given."""
        return self.best.seed


@dataclass(frozen=True)
class Material:
    """What is shown of one environment.

    Attributes:
        policy: The system message, where all episodes have the same; empty otherwise.
        tools: One JSON object a line.
        episodes: Chosen for what they show.
    """

    name: str
    description: str
    policy: str
    tools: str
    episodes: tuple[Episode, ...]

    def shared(self) -> str:
        """Return what questions with and without the episodes have in common."""
        return render(
            "shared.md",
            name=self.name,
            description=self.description,
            policy=_FRAME.sub("\t=====", self.policy),
            tools=self.tools,
        )

    def shown(self) -> str:
        """Return the episodes with what is paid for them."""
        return render("episodes.md", episodes=self.episodes)


def material_of(subject: Subject) -> Material:
    """Play and choose what is shown.

    Raises:
        ValueError: Nobody says what the environment is for.
    """
    if subject.purpose is None:
        raise ValueError("no capability was given")
    probe, spec = subject.probe, subject.purpose.spec
    seeds = subject.seeds
    systems = {system_of(probe.first(seed)) for seed in seeds}
    policy = systems.pop() if len(systems) == 1 else ""
    episodes: list[Episode] = []
    size = 0
    for seed in chosen(probe, seeds):
        one = _episode(probe, seed, len(episodes) + 1, with_system=not policy)
        size += estimate_tokens(one.text)
        if len(episodes) >= FEWEST and size > EPISODE_TOKENS:
            break
        episodes.append(one)
        if len(episodes) == EPISODES:
            break
    tools = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in probe.tools())
    return Material(spec.name, spec.description, policy, tools, tuple(episodes))


def other_material(subject: Subject, material: Material) -> Material | None:
    """Return the same environment with episodes that are not shown otherwise, as the seeds come.

    Returns:
        None where fewer than `FEWEST` seeds are left.
    """
    shown = {one.seed for one in material.episodes}
    left = [seed for seed in subject.seeds if seed not in shown]
    left = left[: len(material.episodes)]
    if len(left) < FEWEST:
        return None
    with_system = not material.policy
    episodes = [
        _episode(subject.probe, seed, n, with_system=with_system) for n, seed in enumerate(left, start=1)
    ]
    return replace(material, episodes=tuple(episodes))


def chosen(probe: Probe, seeds: Sequence[int]) -> Iterator[int]:
    """Yield seeds so that decisions alternate, and each shows as much as it can that none before it showed.

    What a seed shows is its values that other seeds share, each together with the oracle's decision.
    """
    shown = {seed: set(_values(probe.best(seed))) for seed in seeds}
    often = Counter(value for values in shown.values() for value in values)
    kinds = {seed: decision(probe, probe.best(seed)) for seed in seeds}
    features = {
        seed: {(value, kinds[seed]) for value in values if often[value] >= RARE}
        for seed, values in shown.items()
    }
    left, seen, used = list(seeds), set[Any](), Counter[Any]()
    while left:
        fewest = min(used[kinds[seed]] for seed in left)
        open_ones = [seed for seed in left if used[kinds[seed]] == fewest]
        best = max(open_ones, key=lambda seed: len(features[seed] - seen))
        left.remove(best)
        seen |= features[best]
        used[kinds[best]] += 1
        yield best


def decision(probe: Probe, played: Played) -> tuple[str, ...]:
    """Return which changes an agent made, by name: what it decided."""
    return tuple(one["name"] for one in calls_in(played.actions) if probe.writes(one["name"]))


def _values(played: Played) -> Iterator[tuple[str, str]]:
    for message in _told(played):
        try:
            value = json.loads(message)
        except (ValueError, RecursionError):
            continue
        yield from _leaves(value, "")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{path}[]")
    else:
        yield path, str(value)


def _told(played: Played) -> Iterator[str]:
    for answer in played.answers:
        for message in answer["messages"]:
            if message.get("role") == "tool":
                yield str(message.get("content") or "")


def system_of(messages: Sequence[dict[str, Any]]) -> str:
    """Return what the system message of an episode says."""
    return "\n".join(str(one.get("content") or "") for one in messages if one["role"] == "system")


def _episode(probe: Probe, seed: int, number: int, *, with_system: bool) -> Episode:
    best = probe.best(seed)
    idle = probe.play(seed, [{"role": "assistant", "content": "Goodbye."}]).reward
    kept: list[Action] = []
    for action in best.actions:
        calls = action.get("tool_calls") or ()
        if not any(probe.writes(one["name"]) for one in calls):
            kept.append(action)
    unchanged = None if len(kept) == len(best.actions) else probe.play(seed, kept).reward
    return Episode(number, best, idle, unchanged, transcript(best, with_system=with_system))


def transcript(played: Played, *, with_system: bool = False) -> str:
    """Return an episode as a judge reads it: one message a line, calls and results beneath each other."""
    lines = [line for one in played.first for line in _lines(one, with_system)]
    for action, answer in zip(played.actions, played.answers, strict=False):
        lines += _lines(action, True)
        lines += [line for one in answer["messages"] for line in _lines(one, True)]
    return "\n".join(lines)


def _lines(message: dict[str, Any], with_system: bool) -> Iterator[str]:
    role = message["role"]
    if role == "system" and not with_system:
        return
    who = {"assistant": "agent says", "tool": "result", "user": "user", "system": "system"}.get(role, role)
    if role == "tool" and message.get("is_error"):
        who = "error"
    content = str(message.get("content") or "")
    if content or role != "assistant":
        yield f"{who}: {_short(_BEGINNING.sub(_INDENTED, content))}"
    for one in message.get("tool_calls") or ():
        yield f"agent calls {one['name']} {_short(json.dumps(one['arguments'], ensure_ascii=False))}"


def _short(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[-half:]}"


def before_changes(probe: Probe, played: Played) -> str:
    """Return what an agent had read when it made its first change, or its last word where it made none."""
    parts = [str(one.get("content") or "") for one in played.first if one["role"] != "system"]
    for action, answer in zip(played.actions, played.answers, strict=False):
        if any(probe.writes(one["name"]) for one in action.get("tool_calls") or ()):
            break
        parts += [str(one.get("content") or "") for one in answer["messages"]]
    return "\n".join(parts)


# What the model that judges environments is asked, and the forms of its answers.


JudgeKind = Literal[
    "review",
    "lacking",
    "reworded",
    "partly",
    "elsewhere",
    "shortfall",
    "differing",
    "compare",
    "alone",
    "play",
]
Said = Literal["yes", "no", "cannot_tell"]


@dataclass(frozen=True)
class JudgeQuestion(Question[A]):
    """A question about an environment."""

    kind: JudgeKind  # type: ignore[assignment]  # kinds of this room, not of the analyst


def _as_json(given: Any) -> Any:
    return json.dumps(given, ensure_ascii=False) if isinstance(given, Mapping) else given


def _number(given: Any) -> Any:
    """Return an episode's number, however it is written: 2, 2.0, "2", "episode 2"."""
    found = numbers_in(given)
    return found[0] if len(found) == 1 else given


EpisodeNumber = Annotated[int, BeforeValidator(_number)]


class Step(Answer):
    """One message of an agent: a call, or words."""

    tool: str
    arguments: Annotated[str, BeforeValidator(_as_json)]
    """The call's arguments as JSON text: schemas that are held to strictly know no free objects."""
    say: str


def _filled(given: Any) -> Any:
    """Return steps with what was left out as empty, under the names that are asked for."""
    if not isinstance(given, list):
        return given
    return [_step(one) if isinstance(one, Mapping) else one for one in given]


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: next((row[key] for key in keys if row.get(key)), "") for name, keys in _NAMES.items()}
    return {**named, "arguments": named["arguments"] or "{}"}


_NAMES = {
    "tool": ("tool", "name", "call", "function", "tool_name"),
    "arguments": ("arguments", "args", "parameters", "input"),
    "say": ("say", "content", "text", "words", "message"),
}
"""Names that models give to the parts of a step."""

Steps = Annotated[list[Step], BeforeValidator(_filled)]


class Call(Answer):
    """One call of a move."""

    tool: str
    arguments: Annotated[str, BeforeValidator(_as_json)]


def _called(given: Any) -> Any:
    filled = _filled(given)
    rows = filled if isinstance(filled, list) else [filled]
    return [{"tool": one["tool"], "arguments": one["arguments"]} for one in rows if isinstance(one, dict)]


Calls = Annotated[list[Call], BeforeValidator(_called)]


class Unplayable(Exception):
    """A model's steps are none that could be played."""


def script_of(steps: Sequence[Step]) -> list[Action]:
    """Return what a model wrote as messages that can be played.

    Raises:
        Unplayable: A step is neither a call nor words, or its arguments are no JSON object.

    >>> script_of([Step(tool="", arguments="{}", say="Done.")])
    [{'role': 'assistant', 'content': 'Done.'}]
    """
    script: list[Action] = []
    for number, step in enumerate(steps, start=1):
        if step.tool:
            calls = [{"id": f"judge_{number}", "name": step.tool, "arguments": arguments_in(step.arguments)}]
            script.append({"role": "assistant", "content": step.say or None, "tool_calls": calls})
        elif step.say.strip():
            script.append({"role": "assistant", "content": step.say})
        else:
            raise Unplayable(f"step {number} has neither a tool nor words")
    if not script:
        raise Unplayable("there is no step in it")
    return script


def arguments_in(text: str) -> dict[str, Any]:
    """Return a call's arguments.

    Raises:
        Unplayable: They are no JSON object.
    """
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Unplayable(f"the arguments {text[:80]!r} are no JSON object")
    return given


def render(file: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error."""
    return prompt("environments.judge", file, values)


def quoted(quote: str, text: str) -> bool:
    r"""Tell whether words stand in a text, whatever the blanks between them.

    >>> quoted("is  paid", "it is\npaid"), quoted("", "it"), quoted("was paid", "it is paid")
    (True, False, False)
    """
    said = " ".join(quote.split()).strip("\"'“”…. ")
    return bool(said) and said in " ".join(text.split())
