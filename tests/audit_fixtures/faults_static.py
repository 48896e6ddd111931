"""Modules that can be rejected without running them."""

from __future__ import annotations

from tests.audit_fixtures.broken_environment import Animal

_STATE = "episode: dict[str, Any] = {}"
_IMPORT = "import random"
_REPORT = '"report_door": "Report a door."}'


def _beside(line: str) -> tuple[tuple[str, str]]:
    """Put a line below the module's state."""
    return ((_STATE, f"{_STATE}\n{line}"),)


FAULTS = (
    Animal("thousands of lines", "trace.size", "door", ((_STATE, _STATE + "\n#" * 5000),)),
    Animal("not Python", "trace.parses", "door", (("def tools()", "def tools(:"),)),
    Animal("no oracle", "trace.declares_functions", "door", (("def oracle(", "def solve("),)),
    Animal(
        "oracle is a value",
        "trace.declares_functions",
        "door",
        (("def oracle(seed: int)", "oracle = print\n\n\ndef solve(seed: int)"),),
    ),
    Animal(
        "step wants two arguments",
        "trace.signatures",
        "door",
        (("def step(message: dict[str, Any])", "def step(message: dict[str, Any], agent: str)"),),
    ),
    Animal(
        "verdict is asynchronous", "trace.signatures", "door", (("def verdict()", "async def verdict()"),)
    ),
    Animal(
        "reset is a generator",
        "trace.signatures",
        "door",
        (('    return [{"role": "system"', '    yield [{"role": "system"'),),
    ),
    Animal("opens sockets", "trace.imports_allowed", "door", ((_IMPORT, f"{_IMPORT}\nimport socket"),)),
    Animal(
        "imports the target",
        "trace.imports_allowed",
        "door",
        _beside("def later(): from trace_assets.targets import embedded"),
    ),
    Animal("imports by name", "trace.dynamic_code", "door", _beside('system = __import__("os")')),
    Animal("runs a text", "trace.dynamic_code", "door", _beside('exec("x = 1")')),
    Animal("goes round the imports", "trace.dynamic_code", "door", _beside("system = random._os")),
    Animal(
        "climbs to the interpreter",
        "trace.dynamic_code",
        "door",
        _beside("everything = ().__class__.__base__.__subclasses__()"),
    ),
    Animal("hands getattr on", "trace.dynamic_code", "door", _beside("reach = [getattr]")),
    Animal(
        "leaves a file",
        "trace.dynamic_code",
        "door",
        (("    episode.clear()\n", '    episode.clear()\n    open("/tmp/left", "a").close()\n'),),
    ),
    Animal(
        "tells the hash of a text",
        "trace.hidden_inputs",
        "door",
        (("    alarmed = seed % 2 == 1", "    alarmed = hash(door) % 2 == 1"),),
    ),
    Animal(
        "knows the day",
        "trace.hidden_inputs",
        "door",
        (
            (_IMPORT, f"import datetime\n{_IMPORT}"),
            ('    return door, alarmed, f"', '    return door, alarmed, f"{datetime.date.today()} '),
        ),
    ),
    Animal(
        "the order of a set",
        "trace.hidden_inputs",
        "door",
        (("rng.choice(PEOPLE)", "rng.choice(list(set(PEOPLE)))"),),
    ),
)
