"""Environments that want to be honest with their audit alone, each by another way to know it."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal
from tests.audit_fixtures.faults_semantic import PAY

_IMPORT = "import random\n"


def _pays_all_when(condition: str) -> tuple[str, str]:
    return PAY, PAY + f"    if {condition}:\n        reward, success = 1.0, True\n"


def _bypass(name: str, check_id: str, condition: str, imports: str = "") -> Animal:
    edits = (_pays_all_when(condition), *(((_IMPORT, f"{imports}\n{_IMPORT}"),) if imports else ()))
    return Animal(f"bypass by {name}", check_id, "door", edits)


_SAID = 'episode["reply"].lower()'
_KNOWN = '("done", "sorry", "goodbye", "transferred", "reward", "never open", "<", "{")'

FAULTS = (
    _bypass("seed", "semantic.floor_gap", 'episode["seed"] < 2_000_000'),
    _bypass("the seed's parity", "semantic.floor_gap", 'episode["seed"] % 2 == 0'),
    _bypass("the seed's low bits", "semantic.floor_gap", 'episode["seed"] & 7 < 3'),
    _bypass(
        "the seed's hash",
        "semantic.floor_gap",
        'hashlib.md5(str(episode["seed"]).encode()).digest()[0] % 4 > 0',
        "import hashlib",
    ),
    _bypass("the door's number", "semantic.floor_gap", 'int(episode["door"][1:]) % 3 > 0'),
    _bypass(
        "clock",
        "trace.hidden_inputs",
        "Moment.now() > Moment(2026, 11, 22)",
        "from datetime import datetime as Moment",
    ),
    _bypass(
        "a clock without a name",
        "trace.hidden_inputs",
        "(lambda: Moment)().now() > Moment(2026, 11, 22)",
        "from datetime import datetime as Moment",
    ),
    _bypass(
        "a clock handed on",
        "trace.hidden_inputs",
        "[tell() for tell in [Moment.utcnow]] > [Moment(2026, 11, 22)]",
        "from datetime import datetime as Moment",
    ),
    _bypass("process", "trace.imports_allowed", "os.getpid() > 300", "import os"),
    _bypass(
        "process, by another module",
        "trace.dynamic_code",
        'json.codecs.sys.modules["os"].getpid() > 300',
        "import json",
    ),
    _bypass(
        "requests so far",
        "trace.dynamic_code",
        "(lambda: json)().codecs.sys._getframe(1).f_locals['request']['id'] > 5000",
        "import json",
    ),
    _bypass(
        "memory in use", "trace.dynamic_code", "json.codecs.sys.getallocatedblocks() > 60000", "import json"
    ),
    _bypass("an address", "trace.hidden_inputs", "where(episode) & 4096", "where = id"),
    _bypass(
        "wording",
        "trace.attacker.stranger",
        f'{_SAID} and not episode["calls"] and not any(word in {_SAID} for word in {_KNOWN})',
    ),
    Animal(
        "bypass by words beside a call",
        "trace.attacker.stranger",
        "door",
        (
            _pays_all_when('episode.get("chatty")'),
            (
                "    if not calls:\n",
                '    if calls and message["content"]:\n        episode["chatty"] = True\n    if not calls:\n',
            ),
        ),
    ),
)
