"""Coverage-guided fuzzing of the host's parser, with atheris, which wants a Python of its own.

python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris -e .
/tmp/fuzz/bin/python tests/sandbox/fuzz/fuzz_protocol.py -runs=200000
"""

from __future__ import annotations

import sys
from typing import Any

OPS = ("tools", "reset", "step", "verdict", "oracle")


def read(reader: Any, data: bytes, refusal: type[Exception]) -> str:
    """What a reader makes of a line, in words that can be compared."""
    try:
        return repr(reader(data))
    except refusal:
        return "refused"


def main() -> None:
    """Read lines both ways, then as a reply, then as every result: only the two faults may come out."""
    import atheris

    with atheris.instrument_imports(include=["trace_assets.sandbox"]):
        from trace_assets.sandbox import protocol as wire
        from trace_assets.sandbox.errors import EnvironmentFault, ProtocolError
        from trace_assets.sandbox.protocol import check_result

    def one_line(data: bytes) -> None:
        plain, strict = (read(reader, data, ProtocolError) for reader in (wire.parse, wire._strict))
        if plain != strict:
            raise AssertionError(f"the two readers differ: {plain[:200]} against {strict[:200]}")
        try:
            _kind, value = wire.open_reply(data, 1)
        except ProtocolError:
            return
        for op in OPS:
            try:
                check_result(op, value)
            except EnvironmentFault:
                continue

    atheris.Setup(sys.argv, one_line)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
