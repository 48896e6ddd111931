"""Recipes whose scenes turn on something else: several objects, none, a look, a word that is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import noun, spoken
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.drawable import leaves_of
from trace_assets.synthesis.recipes.finding import ground_of, ground_of_any, read_ground
from trace_assets.synthesis.recipes.ground import Filled, Ground
from trace_assets.synthesis.recipes.plan import plan
from trace_assets.synthesis.recipes.problems import argument, one_message, thin
from trace_assets.synthesis.recipes.wishes import free_wishes, look, questions, wish
from trace_assets.synthesis.recipes.wording import DENIALS, participle, patterns_for, without


def several(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about several objects, composed of wishes that no condition decides."""
    if "argument" in spec.detector_args:
        key = argument(spec, "argument")
        reads = [guard for guard in contract.guards if guard.object_argument == key]
        if not reads:
            raise thin(
                spec, f"no successful trajectory reads the object that '{key}' names before changing it"
            )
        read = min({g.read for g in reads}, key=lambda name: -sum(g.n for g in reads if g.read == name))
        one = next(guard for guard in reads if guard.read == read)
        ground = Ground(spec, contract, read, key, one.read_argument or key)
    else:
        ground = ground_of(spec, contract, contract.tool(argument(spec, "tool")).name)
    wishes = [
        wish(ground, guard)
        for guard in contract.guards
        if guard.object_argument == ground.key
        and guard.read == ground.read
        and not guard.field
        and patterns_for(contract, guard.tool)
    ]
    if patterns_for(contract, ground.read) and (wishes or not ground.user_answers):
        wishes.append(wish(ground, look(ground)))
    return plan(ground, wishes or free_wishes(ground))


def missing(
    spec: CapabilitySpec, contract: TargetContract, tools: tuple[str, ...] = (), **more: Any
) -> Filled:
    """Fill a recipe in whose scenes the object is not there for every other seed."""
    ground = ground_of(spec, contract, tools[0]) if tools else ground_of_any(spec, contract)
    thing = noun(ground.key)
    changing = [tool.name for tool in contract.tools if tool.mutates]
    return plan(
        ground,
        free_wishes(ground, tools),
        sorry=f"I am sorry, but I cannot find that {thing}.",
        claims=sorted({participle(name) for name in changing}),
        denials=list(DENIALS),
        **more,
    )


def one_tool(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill `missing` for the tool that the detector names, where it names one that acts on an object."""
    tool = str(spec.detector_args.get("tool") or "")
    acts = {guard.tool for guard in contract.guards if not hands_over(guard.tool)}
    return missing(spec, contract, (tool,) if tool in acts else ())


def looping(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about moving on."""
    return missing(spec, contract, limit=int(spec.detector_args.get("limit") or 3))


def written_otherwise(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about refused calls: identifiers that people write in another form than tools take."""
    filled = one_tool(spec, contract)
    for value in filled.plan["identifiers"]:
        if value[0].isalnum() and value.swapcase() == value:
            raise thin(spec, f"an identifier such as '{value}' can be written in one way only")
    return filled


def asked_to_look(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about questions that only a look answers."""
    ground = read_ground(spec, contract, contract.tool(argument(spec, "tool")).name)
    return plan(ground, free_wishes(ground), questions=questions(ground))


def looked_again(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about checking a change: writes whose effect shows in the record."""
    ground = ground_of_any(spec, contract)
    named = set(strings(spec.detector_args.get("writes")))
    wishes = [one for one in free_wishes(ground) if _shows(ground, one)]
    wishes = [one for one in wishes if one["tool"] in named] or wishes
    if not wishes:
        raise thin(spec, f"no change that '{ground.read}' would show afterwards can be asked for")
    return plan(ground, wishes)


def _shows(ground: Ground, wished: dict[str, Any]) -> bool:
    """Tell whether a look shows that a write was made: the record has a field that it changes."""
    if wished["tool"] in ground.effects:
        return True
    names = {
        name for name, _, held in leaves_of(ground.record) if held.get("type") not in ("array", "object")
    }
    return any(
        name in names and name != ground.key and name not in wished["selects"]
        for wording in wished["wordings"]
        for name in wording["arguments"]
    )


def unsaid(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about values that nobody said: requests that leave one argument out."""
    name = argument(spec, "argument").rpartition(".")[2]
    tool = str(spec.detector_args.get("tool") or "")
    options = [tool] if tool else [guard.tool for guard in contract.guards if not hands_over(guard.tool)]
    found: dict[tuple[str, str], tuple[Ground, list[dict[str, Any]]]] = {}
    for one in options:
        if name not in contract.tool(one).parameters.get("properties", {}):
            continue
        try:
            ground = ground_of(spec, contract, one)
            wished = free_wishes(ground, (one,))[0]
        except InputError:
            continue
        left_out = _left_out(ground, wished, name)
        if left_out:
            place = ground.read, ground.key
            found.setdefault(place, (ground, []))[1].append({**wished, "unsaid": left_out})
    if not found:
        whose = f"'{tool}'" if tool else "a writing tool"
        raise thin(
            spec, f"no request for {whose} is known in which '{name}' is said, so it cannot be left out"
        )
    ground, wishes = max(found.values(), key=lambda item: len(item[1]))
    thing = noun(name) if name == ground.key else spoken(name)
    filled = plan(
        ground,
        wishes,
        unsaid=name,
        thing=[thing],
        question=f"Which {thing} shall it be?",
        answer=f"The {thing} is {{value}}.",
        unknown="I do not know that either.",
    )
    return replace(filled, features=filled.features | ({"unnamed"} if name == ground.key else set()))


def _left_out(ground: Ground, wished: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = []
    for wording in wished["wordings"]:
        slot = wording["arguments"].get(name)
        if slot and name not in wished["selects"] and "{" + slot + "}" in wording["text"]:
            text = without(wording["text"], slot, name, is_object=name == ground.key)
            found.append({**wording, "text": text})
    return found


def consent(spec: CapabilitySpec, contract: TargetContract) -> Filled:
    """Fill the recipe about asking before acting."""
    tool = contract.tool(argument(spec, "tool")).name
    ground = ground_of(spec, contract, tool)
    if not ground.user_answers:
        raise one_message(spec, contract)
    return plan(
        ground,
        free_wishes(ground, (tool,)),
        question=f"This is about {noun(ground.key)} {{{ground.key}}}. Shall I go ahead?",
        agrees="Yes, please go ahead.",
        declines="No, I have changed my mind. Please leave it as it is.",
    )
