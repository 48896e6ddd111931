"""Small cheats by an environment: named by a reading of its text, or blind in the sandbox."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.audit_fixtures.broken_environment import sound_source
from tests.audit_fixtures.faults_semantic import PAY
from trace_assets.environments.audit.bypass_checks import dynamic_code, hidden_inputs
from trace_assets.environments.audit.check import Finding
from trace_assets.environments.audit.static import imports_allowed
from trace_assets.sandbox import SandboxPool
from trace_assets.sandbox.session import Session

DOOR = sound_source("door")
CHECKS = {check.__name__: check for check in (imports_allowed, dynamic_code, hidden_inputs)}
CHEATS = tomllib.loads(Path(__file__).with_name("cheats.toml").read_text())["cheat"]
NAMED = [one for one in CHEATS if "by" in one]
BLIND = [one for one in CHEATS if "by" not in one]


def read(check: str, condition: str, imports: str = "", more: str = "") -> Finding:
    """What a check of the text says of the door with a cheat in its verdict."""
    paid = f"    if {condition}:\n        reward, success = 1.0, True\n"
    assert DOOR.count(PAY) == DOOR.count("import random\n") == 1
    source = DOOR.replace(PAY, PAY + paid).replace("import random\n", f"{imports}\nimport random\n")
    subject: Any = SimpleNamespace(environment=SimpleNamespace(source=f"{source}\n\n{more}"))
    return CHECKS[check](subject)


@pytest.mark.parametrize("cheat", NAMED, ids=lambda cheat: f"{cheat['by']}: {cheat['condition']}")
def test_a_cheat_is_named_with_its_line(cheat: dict[str, str]) -> None:
    found = read(cheat["by"], cheat["condition"], cheat.get("imports", ""), cheat.get("more", ""))
    assert found.status == "fail" and "line " in found.evidence


@pytest.mark.parametrize(
    ("condition", "more"),
    [
        ("False", ""),
        ("sorted({'a', 'b'})[0] == 'a'", ""),
        ("any(x in 'abc' for x in {'a', 'b'})", ""),
        ("len([*'ab']) in {2, 3}", ""),
        ("max({1, 2}) == 2", ""),
        ("sum(x for x in {1, 2}) == 3", ""),
        ("episode['calls'].pop()", ""),
        ("'{0}, {1:.2f}, {name}'.format(1, 2.0, name='x') == ''", ""),
        ("'{order.total}'.format(order=1) == ''", ""),
        ("f'{episode}.__class__' == ''", ""),
        ("random.Random(7).random() < 0", ""),
        ("random.seed(7) or False", ""),
        ("first([1, 2])", "def first(names):\n    for name in names:\n        return name\n"),
        ("both()", "def both():\n    s = {1}\n    s = [2]\n    return [x for x in s][0] == 1\n"),
        ("K(1) == K(1)", "class K(int):\n    def __hash__(self):\n        return hash(int(self))\n"),
        ("held()", "def held():\n    s = {1}\n    s |= {2}\n    return 1 in s\n"),
    ],
)
def test_what_the_seed_decides_is_no_cheat(condition: str, more: str) -> None:
    for check in CHECKS:
        found = read(check, condition, more=more)
        assert found.status == "pass", found.evidence


# What no reading names is blind: all of them look at once, in sandboxes young and old.


def looking() -> str:
    """The door, whose first message says what each of the cheats sees."""
    imports = "\n".join(sorted({one["imports"] for one in BLIND if "imports" in one}))
    looks = "".join(f"    lambda: {one['condition']},\n" for one in BLIND)
    return f"""
import json
{imports}
{DOOR}
{"".join(one.get("more", "") for one in BLIND)}
LOOKS = [
{looks}]

def seen_by(look):
    try:
        return repr(look())
    except BaseException as error:
        return repr(error)

def reset(seed):
    return [{{"role": "user", "content": "\\n".join(map(seen_by, LOOKS))}}]
"""


def told(box: Any, seed: int) -> dict[str, str]:
    with Session(box.leaf, seed) as session:
        seen = str(session.messages[0]["content"]).split("\n")
    return dict(zip((json.dumps(one) for one in BLIND), seen, strict=True))


def assert_blind(pool: SandboxPool) -> None:
    """Ask in a new sandbox, and in one in which sixty episodes were played."""
    source = looking()
    boxes = [pool.fresh(pool.environment(source)) for _ in range(2)]
    try:
        for seed in range(60):
            Session(boxes[1].leaf, seed).close()
        first = told(boxes[0], 7)
        assert sum("Error" not in seen for seen in first.values()) > len(first) - 6, "they do look"
        for box in (boxes[1], boxes[0], boxes[1]):
            again = told(box, 7)
            assert {name: (first[name], again[name]) for name in first if first[name] != again[name]} == {}
    finally:
        for box in boxes:
            box.fail()


def test_what_is_not_named_is_blind(unsafe_pool: SandboxPool) -> None:
    assert len(BLIND) > 35
    assert_blind(unsafe_pool)


@pytest.mark.ci
def test_nor_does_it_see_in_bubblewrap(bubblewrap_pool: SandboxPool) -> None:
    assert_blind(bubblewrap_pool)


@pytest.mark.ci
@pytest.mark.docker
def test_nor_does_it_see_in_a_container(docker_pool: SandboxPool) -> None:
    assert_blind(docker_pool)
