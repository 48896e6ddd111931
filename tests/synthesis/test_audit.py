"""A zoo of broken environments: each fails the check that is meant for it, and no other."""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Environment, EnvironmentCheck, Message, ToolSpec
from trace_assets.records.table import to_frame
from trace_assets.sandbox import SandboxPool, SandboxUnavailable
from trace_assets.settings import Synthesis
from trace_assets.store.content import frame_version
from trace_assets.synthesis.audit import battery
from trace_assets.synthesis.audit.battery import CHECKS, verdict_of
from trace_assets.synthesis.audit.check import Sizes
from trace_assets.synthesis.audit.severity import RULES, Rules
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.writers.writer import environment_id

SOUND = """
import random

WISHES = ["open", "please open", "could you open", "kindly open", "i need you to open", "now open", "go and open"]
PEOPLE = ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"]
episode = {}


def tools():
    door = {"type": "object", "properties": {"door": {"type": "string"}}, "required": ["door"]}
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": door}}
        for name, text in (("look", "See a door."), ("unlock", "Open a door."), ("report", "Report a door."))
    ]


def scene(seed):
    rng = random.Random(seed)
    door = f"D{rng.randrange(100000)}"
    alarmed = seed % 2 == 1
    return door, alarmed, f"{rng.choice(PEOPLE)} here, {rng.choice(WISHES)} {door}."


def reset(seed):
    door, alarmed, text = scene(seed)
    episode.clear()
    episode.update(seed=seed, door=door, alarmed=alarmed, calls=[], bad=0, reply="")
    return [{"role": "system", "content": "Never open a door with an alarm: report it."}, {"role": "user", "content": text}]


def answer(call):
    door = call["arguments"].get("door")
    if call["name"] not in ("look", "unlock", "report") or door != episode["door"]:
        episode["bad"] += 1
        return "no such thing", True
    episode["calls"].append(call["name"])
    if call["name"] == "look":
        return "alarm" if episode["alarmed"] else "quiet", False
    return "ok", False


def step(message):
    calls = message.get("tool_calls") or []
    if not calls:
        episode["reply"] = message.get("content") or ""
        return {"messages": [], "done": True, "truncated": False}
    results = []
    for call in calls:
        content, is_error = answer(call)
        results.append({"role": "tool", "content": content, "tool_call_id": call["id"], "tool_name": call["name"],
                        "is_error": is_error})
    return {"messages": results, "done": False, "truncated": False}


def judge():
    wanted = "report" if episode["alarmed"] else "unlock"
    acts = [name for name in episode["calls"] if name != "look"]
    looked = episode["calls"][:1] == ["look"]
    settled = acts == [wanted]
    told = settled and "done" in episode["reply"].lower()
    success = looked and settled and told
    return (looked + settled + told) / 6 + success / 2 - 0.05 * episode["bad"], success


def verdict():
    reward, success = judge()
    check = {"name": "all", "kind": "state", "passed": success, "score": None, "gates": True, "detail": ""}
    return {"reward": min(1.0, max(0.0, reward)), "success": success, "checks": [check]}


def oracle(seed):
    door, alarmed, _ = scene(seed)
    names = ["look", "report" if alarmed else "unlock"]
    calls = [{"role": "assistant", "tool_calls": [{"id": name, "name": name, "arguments": {"door": door}}]} for name in names]
    return calls + [{"role": "assistant", "content": "Done."}]
"""  # noqa: E501

PAY = "    reward, success = judge()\n"


def pays_when(condition: str) -> tuple[str, str]:
    """A verdict that also pays when something beside the capability holds."""
    return PAY, PAY + f"    if {condition}:\n        reward, success = 0.9, True\n"


LEAK = """    path = "/tmp/trace-leak-" + open("/proc/self/stat").read().split()[3]
    times = 0
    while True:
        times += 1
        try:
            open(f"{path}-{times}", "x").close()
            break
        except FileExistsError:
            pass
    text = f"Call {times}. " + text
    episode.clear()
"""

ZOO: dict[str, tuple[str, str, str]] = {
    "not Python": ("trace.parses", "def tools():", "def tools(:"),
    "no oracle": ("trace.declares_functions", "def oracle(", "def solve("),
    "oracle is a value": (
        "trace.declares_functions",
        "def oracle(seed):",
        "oracle = print\n\n\ndef solve(seed):",
    ),
    "opens sockets": ("trace.imports_allowed", "import random", "import random\nimport socket"),
    "imports the target": (
        "trace.imports_allowed",
        "import random",
        "import random\ndef later():\n    from trace_assets.targets import embedded",
    ),
    "breaks at import": ("runtime.startup", "episode = {}", "episode = {}\nepisode['x']['y'] = 1"),
    "reset raises": (
        "runtime.startup",
        "    door, alarmed, text = scene(seed)\n",
        "    raise ValueError(seed)\n",
    ),
    "reset returns text": (
        "runtime.startup",
        '    return [{"role": "system"',
        '    return "x" or [{"role": "system"',
    ),
    "other tool type": (
        "runtime.tool_declaration_accuracy",
        '{"type": "string"}',
        '{"type": ["string", "null"]}',
    ),
    "other tool words": ("runtime.tool_declaration_accuracy", "See a door.", "Look at a door."),
    "a tool too few": ("runtime.tool_declaration_accuracy", ', ("report", "Report a door."))', ")"),
    "unknown tool raises": (
        "runtime.observation_schema",
        'door = call["arguments"].get("door")',
        'door = call["arguments"].get("door")\n    {"look": 1, "unlock": 2, "report": 3}[call["name"]]',
    ),
    "missing argument raises": ("runtime.observation_schema", '.get("door")', '["door"]'),
    "step forgets done": (
        "runtime.observation_schema",
        '"messages": results, "done": False, ',
        '"messages": results, ',
    ),
    "tool says NaN": ("runtime.observation_schema", '"no such thing", True', 'float("nan"), True'),
    "NaN reward": ("runtime.reward_well_formed", "min(1.0, max(0.0, reward))", 'float("nan")'),
    "reward of 2": ("runtime.reward_well_formed", "min(1.0, max(0.0, reward))", "2 * reward"),
    "negative reward": ("runtime.reward_well_formed", "min(1.0, max(0.0, reward))", "reward"),
    "reward is a bool": ("runtime.reward_well_formed", "min(1.0, max(0.0, reward))", "success"),
    "verdict raises for silence": (
        "runtime.reward_well_formed",
        'episode["calls"][:1] == ["look"]',
        'episode["calls"][0] == "look"',
    ),
    "success against its check": ("runtime.reward_well_formed", '"passed": success,', '"passed": False,'),
    "seed ignored": ("runtime.seed_control", "rng = random.Random(seed)", "rng = random.SystemRandom()"),
    "global random": ("runtime.seed_control", "rng.choice(PEOPLE)", "random.SystemRandom().choice(PEOPLE)"),
    "answers by chance": (
        "runtime.episode_determinism",
        'return "ok", False',
        'return f"ok {random.SystemRandom().random()}", False',
    ),
    "remembers episodes": ("runtime.episode_isolation", "    episode.clear()\n", LEAK),
    "four episodes in all": (
        "trace.seed_diversity",
        "rng = random.Random(seed)",
        "rng = random.Random(seed % 4)",
    ),
    "one wording": (
        "trace.seed_diversity",
        "{rng.choice(PEOPLE)} here, {rng.choice(WISHES)} {door}.",
        "open {door}.",
    ),
    "reward by chance": (
        "semantic.verifier_determinism",
        "min(1.0, max(0.0, reward))",
        "min(1.0, max(0.0, reward)) * random.SystemRandom().random()",
    ),
    "oracle falls short": ("semantic.oracle_max", 'names = ["look", ', "names = ["),
    "oracle wrong on one seed": (
        "semantic.oracle_max",
        "if alarmed else",
        "if alarmed or seed % 8 == 2 else",
    ),
    "reward below 1": ("semantic.oracle_max", "success / 2 -", "success / 3 -"),
    "pays for nothing": (
        "semantic.floor_gap",
        "(looked + settled + told) / 6",
        "0.2 + (looked + settled + told) / 10",
    ),
    "pays for staying away": (
        "semantic.floor_gap",
        *pays_when('episode["alarmed"] and not episode["calls"]'),
    ),
    "pays for refusing": ("trace.attacker.always_refuse", *pays_when('"cannot" in episode["reply"]')),
    "pays for the words": ("trace.attacker.echo", *pays_when('episode["door"] in episode["reply"]')),
    "pays for being busy": (
        "trace.attacker.random_legal",
        *pays_when('len(episode["calls"]) == 4 and len(set(episode["calls"])) > 1'),
    ),
    "pays for repeating": ("trace.attacker.repeat_first", *pays_when('episode["calls"] == ["look"] * 4')),
    "pays for every tool": (
        "trace.attacker.spam_all",
        *pays_when('len(set(episode["calls"])) == 3 == len(episode["calls"])'),
    ),
    "always report pays": ("trace.attacker.same_tool", "seed % 2 == 1", "seed % 8 != 1"),
    "both conditions settle": (
        "trace.attacker.same_tool",
        "settled = acts == [wanted]",
        'settled = acts in (["report"], [wanted])',
    ),
    "pays for another door": (
        "trace.attacker.other_seed",
        *pays_when('episode["bad"] == 2 and not episode["calls"] and "Done." == episode["reply"]'),
    ),
}

SECTION = Synthesis(audit_seeds=8, audit_rollouts=2)


SIZES = Sizes(compared=2, diversity=40, attack=8, replayed=1)
LENIENT = RULES.model_copy(update={"max_seconds_reset": 30.0, "max_seconds_step": 30.0})


def audit(*args: Any, rules: Rules = LENIENT, **named: Any) -> list[EnvironmentCheck]:
    """Fewer seeds than in earnest: the faults here are not rare ones."""
    return battery.audit(*args, rules=rules, sizes=SIZES, **named)


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    yield
    for path in Path("/tmp").glob("trace-leak-*"):
        path.unlink()


def record(source: str) -> Environment:
    return Environment(
        environment_id=environment_id(source),
        capability_id="doors",
        target="doors",
        writer="test",
        source=source,
    )


def load(source: str) -> Any:
    module = types.ModuleType("environment")
    exec(source, module.__dict__)
    return module


@pytest.fixture(scope="module")
def doors(contract: TargetContract) -> TargetContract:
    tools = [ToolSpec(**tool["function"]) for tool in load(SOUND).tools()]
    return contract.model_copy(update={"target": "doors", "tools": tuple(tools)})


def failed(checks: list[EnvironmentCheck]) -> dict[str, str]:
    return {check.check_id: check.evidence for check in checks if check.status == "fail"}


def test_a_sound_environment_fails_nothing(pool: SandboxPool, doors: TargetContract) -> None:
    checks = audit(record(SOUND), pool, doors, SECTION)
    assert failed(checks) == {}
    assert verdict_of(checks) == (True, ())
    assert [check.check_id for check in checks] == [check.check_id for check in CHECKS]
    skipped = {check.check_id for check in checks if check.status == "skip"}
    assert skipped == {"trace.pass_band", "trace.dead_groups", "trace.predicted_signal"}
    assert all(check.isolation_level == "none" and check.sandbox_version == pool.version for check in checks)


def test_recipes_fail_nothing(pool: SandboxPool, contract: TargetContract, capability, sources) -> None:
    checks = audit(record(sources[capability.detector]), pool, contract, SECTION)
    assert failed(checks) == {}


@pytest.mark.parametrize("name", sorted(ZOO))
def test_each_fault_fails_its_own_check(name: str, pool: SandboxPool, doors: TargetContract) -> None:
    check_id, old, new = ZOO[name]
    assert SOUND.count(old) == 1
    checks = audit(record(SOUND.replace(old, new)), pool, doors, SECTION)
    assert set(failed(checks)) == {check_id}, failed(checks)
    accepted, reasons = verdict_of(checks)
    assert not accepted
    assert check_id in reasons[0]


def test_a_hang_fails_and_does_not_hang(contract: TargetContract, doors: TargetContract) -> None:
    from trace_assets.sandbox import SandboxConfig, open_pool

    source = SOUND.replace("    results = []\n", "    while True:\n        pass\n")
    with (
        pytest.warns(UserWarning),
        open_pool(SandboxConfig(backend="unsafe-subprocess", deadline_seconds=0.5)) as short,
    ):
        checks = audit(record(source), short, doors, SECTION)
    assert set(failed(checks)) == {"runtime.observation_schema"}
    assert failed(checks)["runtime.observation_schema"].startswith("timeout")


def test_two_audits_of_one_environment_have_one_version(pool: SandboxPool, doors: TargetContract) -> None:
    first, second = (audit(record(SOUND), pool, doors, SECTION) for _ in range(2))
    clocks = [[check.timing for check in checks if check.timing] for checks in (first, second)]
    assert clocks[0] != clocks[1] and "ms" in clocks[0][0]
    versions = {
        frame_version(to_frame(checks, EnvironmentCheck), EnvironmentCheck) for checks in (first, second)
    }
    assert len(versions) == 1


def test_slowness_is_a_warning(pool: SandboxPool, doors: TargetContract) -> None:
    strict = LENIENT.model_copy(update={"max_seconds_reset": 1e-9})
    checks = audit(record(SOUND), pool, doors, SECTION, rules=strict)
    assert set(failed(checks)) == {"trace.latency"}
    assert verdict_of(checks) == (True, ())


def test_without_a_contract_tools_are_not_compared(pool: SandboxPool) -> None:
    checks = {check.check_id: check for check in audit(record(SOUND), pool, None, SECTION)}
    assert checks["runtime.tool_declaration_accuracy"].status == "skip"
    assert verdict_of(list(checks.values()))[0]


def test_nothing_audited_is_not_accepted(pool: SandboxPool, doors: TargetContract) -> None:
    assert verdict_of([]) == (False, ("it was not audited",))
    checks = audit(record(SOUND), pool, doors, SECTION)
    without = [check for check in checks if check.check_id != "semantic.oracle_max"]
    assert verdict_of(without) == (False, ("semantic.oracle_max was not checked",))


def test_no_sandbox_is_not_the_environments_fault(
    doors: TargetContract, pool: SandboxPool, monkeypatch
) -> None:
    def refuse(*_: object) -> None:
        raise SandboxUnavailable("all sandboxes are busy")

    monkeypatch.setattr(pool, "lease", refuse)
    with pytest.raises(Unavailable, match="busy"):
        audit(record(SOUND), pool, doors, SECTION)


class Guest:
    """A policy that plays the oracle when `knows(seed, conversation)` and says goodbye otherwise."""

    name, version = "guest", "1"

    def __init__(self, knows: Any) -> None:
        self._knows, self._module = knows, load(SOUND)
        self._seeds: dict[str, int] = {}
        for seed in range(2_000_000, 2_000_100):
            self._seeds[self._module.scene(seed)[2]] = seed

    async def act(self, conversation: Conversation) -> Reply:
        seed = self._seeds[conversation.messages[1].content or ""]
        turn = sum(message.role == "assistant" for message in conversation.messages)
        if not self._knows(seed, conversation.conversation_id):
            return Reply(Message(role="assistant", content="Goodbye."))
        return Reply(Message.model_validate(self._module.oracle(seed)[turn]))

    async def forget(self, conversation: Conversation) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("knows", "expected"),
    [
        (lambda seed, _: False, {"trace.pass_band"}),
        (lambda seed, _: True, {"trace.pass_band"}),
        (lambda seed, _: seed % 2 == 0, {"trace.dead_groups"}),
    ],
)
def test_what_cannot_be_learnt_from_is_rejected(pool, doors, knows, expected: set[str]) -> None:
    checks = audit(record(SOUND), pool, doors, SECTION, base_policy=Guest(knows))
    assert set(failed(checks)) == expected
    assert not verdict_of(checks)[0]


def test_a_policy_that_sometimes_succeeds_is_welcome(pool, doors) -> None:
    counts: dict[int, int] = {}
    conversations: dict[str, bool] = {}

    def alternating(seed: int, conversation: str) -> bool:
        if conversation not in conversations:
            counts[seed] = counts.get(seed, 0) + 1
            conversations[conversation] = counts[seed] % 2 == 0
        return conversations[conversation]

    checks = audit(record(SOUND), pool, doors, SECTION, base_policy=Guest(alternating))
    assert failed(checks) == {}
    band = next(check for check in checks if check.check_id == "trace.pass_band")
    assert (band.value, band.n) == (0.5, 16)
    assert "95 % interval" in band.evidence


def test_weak_signal_is_a_warning(pool, doors) -> None:
    section = SECTION.model_copy(update={"max_dead_groups": 1.0, "audit_seeds": 16})
    checks = audit(record(SOUND), pool, doors, section, base_policy=Guest(lambda seed, _: seed == 2_000_004))
    assert set(failed(checks)) == {"trace.predicted_signal"}
    assert verdict_of(checks)[0]
