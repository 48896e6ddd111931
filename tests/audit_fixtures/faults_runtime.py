"""Environments that do not run as they should: they break, differ from run to run, or remember."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal

_STATE = "episode: dict[str, Any] = {}"
_REWARD = "min(1.0, max(0.0, reward))"
_TYPED = 'if type(arguments[key]) is not TYPES[schema["type"]]:'

FAULTS = (
    Animal("breaks at import", "runtime.startup", "door", ((_STATE, _STATE + '\nepisode["x"]["y"] = 1'),)),
    Animal(
        "reset raises",
        "runtime.startup",
        "door",
        (("    door, alarmed, text = scene(seed)\n", "    raise ValueError(seed)\n"),),
    ),
    Animal(
        "reset returns text",
        "runtime.startup",
        "door",
        (('    return [{"role": "system"', '    return "x" or [{"role": "system"'),),
    ),
    Animal(
        "an unknown tool raises",
        "runtime.observation_schema",
        "door",
        (
            (
                'door = call["arguments"].get("door")',
                'TEXTS[call["name"]]\n    door = call["arguments"].get("door")',
            ),
        ),
    ),
    Animal(
        "a missing argument raises", "runtime.observation_schema", "door", (('.get("door")', '["door"]'),)
    ),
    Animal(
        "an odd value raises",
        "runtime.observation_schema",
        "door",
        (('.get("door")', '.get("door")\n    door = {door: door}[door]'),),
    ),
    Animal(
        "step forgets done",
        "runtime.observation_schema",
        "door",
        (('"messages": results, "done": False, ', '"messages": results, '),),
    ),
    Animal(
        "a tool says NaN",
        "runtime.observation_schema",
        "door",
        (('"no such thing", True', 'float("nan"), True'),),
    ),
    Animal(
        "answers one call of several",
        "runtime.observation_schema",
        "door",
        (('{"messages": results, "done": False', '{"messages": results[:1], "done": False'),),
    ),
    Animal("NaN reward", "runtime.reward_well_formed", "door", ((_REWARD, 'float("nan")'),)),
    Animal("reward of 2", "runtime.reward_well_formed", "door", ((_REWARD, "2 * reward"),)),
    Animal("negative reward", "runtime.reward_well_formed", "door", ((_REWARD, "reward - 0.1"),)),
    Animal("reward is a truth value", "runtime.reward_well_formed", "door", ((_REWARD, "success"),)),
    Animal(
        "verdict raises for silence",
        "runtime.reward_well_formed",
        "door",
        (('episode["calls"][:1] == ["get_door"]', 'episode["calls"][0] == "get_door"'),),
    ),
    Animal(
        "success against its check",
        "runtime.reward_well_formed",
        "door",
        (('"passed": success,', '"passed": False,'),),
    ),
    Animal(
        "words end nothing",
        "trace.oracle_ends",
        "door",
        (('{"messages": [], "done": True', '{"messages": [], "done": False'),),
    ),
    Animal(
        "ends before it is told",
        "trace.oracle_ends",
        "door",
        (('"messages": results, "done": False', '"messages": results, "done": len(episode["calls"]) == 2'),),
    ),
    Animal(
        "slow to begin",
        "trace.latency",
        "door",
        (("    episode.clear()\n", "    episode.clear()\n    sum(range(300_000))\n"),),
        rules=(("max_seconds_reset", 0.001),),
    ),
    Animal(
        "seed ignored",
        "runtime.seed_control",
        "door",
        (("rng = random.Random(seed)", "rng = random.Random()"),),
        held=False,
    ),
    Animal(
        "answers by chance",
        "runtime.episode_determinism",
        "door",
        (('return "ok", False', 'return f"ok {random.Random().random()}", False'),),
        held=False,
    ),
    Animal(
        "reward by chance",
        "semantic.verifier_determinism",
        "door",
        ((_REWARD, f"{_REWARD} * (1 - random.Random().random() / 4)"),),
        held=False,
    ),
    Animal(
        "unseeded chance",
        "trace.hidden_conditions",
        "door",
        (("{rng.choice(PEOPLE)}", "{random.Random().choice(PEOPLE)}"),),
    ),
    Animal(
        "reset forgets to clear",
        "runtime.episode_isolation",
        "door",
        (("    episode.clear()\n", '    episode.setdefault("calls", [])\n'), ("calls=[], bad=0", "bad=0")),
    ),
    Animal(
        "counts its episodes",
        "runtime.episode_isolation",
        "door",
        (
            ("    episode.clear()\n", '    PEOPLE.append("all")\n    episode.clear()\n'),
            ('    rule = "Never', '    rule = f"Door book, page {len(PEOPLE)}. Never'),
        ),
    ),
    Animal(
        "the same doors again and again",
        "trace.seed_diversity",
        "door",
        (("rng = random.Random(seed)", "rng = random.Random(seed % 4)"),),
    ),
    Animal(
        "one wording",
        "trace.seed_diversity",
        "door",
        (("{rng.choice(PEOPLE)} here, {rng.choice(WISHES)} {door}.", "open {door}."),),
    ),
    Animal(
        "always the same to do",
        "trace.structure_diversity",
        "bills",
        (('"wrong": seed % 2 == 0', '"wrong": False'),),
    ),
    Animal(
        "a declared tool is not there",
        "runtime.tool_declaration_accuracy",
        "tickets",
        (('return "deleted", False', 'return f"there is no tool {name}", True'),),
    ),
    Animal(
        "any tool answers",
        "runtime.tool_declaration_accuracy",
        "door",
        (('if call["name"] not in TEXTS or door != episode["door"]:', 'if door != episode["door"]:'),),
    ),
    Animal(
        "takes a text for an amount",
        "runtime.tool_declaration_accuracy",
        "bills",
        ((_TYPED, f'{_TYPED[:-1]} and key != "amount":'),),
    ),
    Animal(
        "takes what the enum does not list",
        "runtime.tool_declaration_accuracy",
        "claims",
        (('if arguments[key] not in schema.get("enum", [arguments[key]]):', 'if key == "none":'),),
    ),
)
