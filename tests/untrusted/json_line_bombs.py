"""JSON lines: long ones, deep ones, wide ones, many, and text that is none."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.untrusted.bombs import LEAST, MB, bomb


def good_row(number: int) -> str:
    """Return a usable conversation as a line of JSON."""
    said = [{"role": "user", "content": f"hi {number}"}, {"role": "assistant", "content": "hello"}]
    return json.dumps({"id": f"good-row-number-{number:05d}", "reward": 1, "messages": said})


def lines(path: Path, *between: str | bytes | Iterable[str]) -> None:
    """Write a good row, what is given, and another good row, each a line."""
    with path.open("wb") as file:
        file.write(good_row(1).encode() + b"\n")
        for part in between:
            for piece in [part] if isinstance(part, str | bytes) else part:
                file.write(piece if isinstance(piece, bytes) else piece.encode())
            file.write(b"\n")
        file.write(good_row(2).encode() + b"\n")


USER = '{"role":"user","content":"hi"}'
HEAD = '{"id":"hostile-row-with-a-long-id","reward":1,"messages":['


def more(field: str) -> str:
    return f'{HEAD}{USER}],"more":{field}}}'


@bomb("jsonl", 2, "line 2", "memory")
def long_line(path: Path) -> None:
    lines(path, [HEAD, '{"role":"user","content":"', *["x" * MB] * 80, '"}]}'])


@bomb("jsonl", 1, "memory")
def long_line_at_the_end(path: Path) -> None:
    path.write_text(good_row(1) + "\n" + HEAD + '{"role":"user","content":"' + "x" * 80 * MB)


@bomb("jsonl", 2, "line 2", "nested too deeply")
def brackets(path: Path) -> None:
    lines(path, "[" * 200_000)


@bomb("jsonl", 2, "line 2", "nested too deeply")
def objects_in_objects(path: Path) -> None:
    lines(path, more('{"a":' * 100_000 + "1" + "}" * 100_000))


@bomb("jsonl", 2, "line 2", "nested")
def nested_as_deep_as_python_reads(path: Path) -> None:
    lines(path, more("[" * 900 + "]" * 900))


@bomb("jsonl", 3)
def deep_arguments_as_text(path: Path) -> None:
    call = {"name": "f", "arguments": "[" * 5000 + "]" * 5000}
    row = {
        "id": "a-row-with-deep-arguments",
        "reward": 1,
        "messages": [{"role": "assistant", "tool_calls": [call]}],
    }
    lines(path, json.dumps(row))


@bomb("jsonl", 2, "line 2")
def deep_arguments(path: Path) -> None:
    inner = '{"a":' * 600 + "1" + "}" * 600
    lines(path, HEAD + '{"role":"assistant","tool_calls":[{"name":"f","arguments":' + inner + "}]}]}")


@bomb("jsonl", 2)
def a_million_messages(path: Path) -> None:
    lines(path, HEAD + ",".join(['{"role":"user"}'] * 1_000_000) + "]}")


@bomb("jsonl", 2)
def many_messages(path: Path) -> None:
    lines(path, HEAD + ",".join(['{"role":"user"}'] * 90_000) + "]}")


@bomb("jsonl", 3)
def many_calls(path: Path) -> None:
    call = ",".join(['{"name":"f"}'] * 9_000)
    lines(path, HEAD + ",".join([f'{{"role":"assistant","tool_calls":[{call}]}}'] * 10) + "]}")


@bomb("jsonl", 2, "scores")
def many_scores(path: Path) -> None:
    lines(path, f"{HEAD}{USER}]," + '"scores":{' + ",".join(f'"{n}":1' for n in range(400_000)) + "}}")


@bomb("jsonl", 2)
def three_million_keys(path: Path) -> None:
    lines(path, more("{" + ",".join(f'"{n}":1' for n in range(3_000_000)) + "}"))


@bomb("jsonl", 3)
def as_many_keys_as_fit(path: Path) -> None:
    lines(path, more("{" + ",".join(f'"{n}":1' for n in range(480_000)) + "}"))


@bomb("jsonl", 2)
def duplicate_keys(path: Path) -> None:
    lines(path, more("{" + ",".join(['"a":1'] * 5_000_000) + "}"))


@bomb("jsonl", 2, "memory")
def empty_objects(path: Path) -> None:
    lines(path, more("[" + ",".join(["{}"] * 5_000_000) + "]"))


@bomb("jsonl", 3)
def as_many_empty_objects_as_fit(path: Path) -> None:
    lines(path, more("[" + ",".join(["{}"] * 200_000) + "]"))


@bomb("jsonl", 2, "digits")
def a_million_digits(path: Path) -> None:
    lines(path, more("7" * 1_000_000))


@bomb("jsonl", 3)
def a_million_decimals(path: Path) -> None:
    lines(path, more("0." + "7" * 1_000_000))


@bomb("jsonl", 5)
def numbers_that_no_column_holds(path: Path) -> None:
    lines(
        path,
        f"{HEAD}{USER}]," + '"cost":1e999}',
        f"{HEAD}{USER}]," + '"seed":123456789012345678901234567890}',
        f"{HEAD.replace('hostile', 'hostile-b')}{USER}],"
        + '"usage":{"prompt_tokens":1e400,"completion_tokens":-5}}',
        f"{HEAD.replace('hostile', 'hostile-c')}{USER}],"
        + '"usage":{"prompt_tokens":123456789012345678901234567890}}',
    )


@bomb("jsonl", 3)
def a_wide_text(path: Path) -> None:
    lines(path, [HEAD, '{"role":"user","content":"\U0001f600', *["x" * MB] * 9, '"}]}'])


@bomb("jsonl", 3)
def escapes(path: Path) -> None:
    lines(path, HEAD + '{"role":"user","content":"' + "\\u0041\\n\\\\" * 200_000 + '"}]}')


@bomb("jsonl", 3)
def half_a_surrogate_pair(path: Path) -> None:
    lines(path, HEAD + '{"role":"user","content":"a \\ud83d b \\\\ud83d c \\ud83d\\ude00 d"}]}')


@bomb("jsonl", 2, "UTF-8")
def half_a_surrogate_pair_in_bytes(path: Path) -> None:
    lines(path, HEAD.encode() + b'{"role":"user","content":"a \xed\xa0\xbd b"}]}')


@bomb("jsonl", 3)
def nul(path: Path) -> None:
    lines(path, HEAD + '{"role":"user","content":"a \\u0000 b"}]}')


@bomb("jsonl", 2)
def bytes_that_are_nul(path: Path) -> None:
    lines(path, b"\0" * 1000)


@bomb("jsonl", 2)
def a_name_in_every_row(path: Path) -> None:
    """A long id, and a long name of a tool, which tables repeat for each message."""
    named = HEAD.replace("hostile-row-with-a-long-id", "i" * 2 * MB)
    lines(path, named + ",".join(['{"role":"user"}'] * 5_000) + "]}")


@bomb("jsonl", 2)
def a_tool_with_a_long_name(path: Path) -> None:
    call = '{"role":"assistant","tool_calls":[{"id":"c","name":"' + "n" * 2 * MB + '"}]}'
    lines(path, HEAD + ",".join([call, *['{"role":"tool","content":"x"}'] * 5_000]) + "]}")


@bomb("jsonl", 2, "the rest of the file is not read")
def lines_of_no_use(path: Path) -> None:
    """Good rows stand before: after so many useless lines the rest is not read."""
    path.write_text(good_row(1) + "\n" + good_row(2) + "\n" + "1\n" * 3_000_000)


@bomb("jsonl", None, "more trajectories and tasks than can be remembered", allowed=LEAST)
def countless_rows(path: Path) -> None:
    path.write_text("".join(f'{{"messages":[{{"role":"user","content":"{n}"}}]}}\n' for n in range(40_000)))


@bomb("jsonl", 2)
def a_byte_order_mark(path: Path) -> None:
    lines(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@bomb("jsonl", 2, "line 1")
def a_bad_first_line(path: Path) -> None:
    path.write_text('{"messages": [oops\n' + good_row(1) + "\n" + good_row(2) + "\n")


@bomb("jsonl", 0, "UTF-16")
def utf_16(path: Path) -> None:
    path.write_bytes((good_row(1) + "\n" + good_row(2) + "\n").encode("utf-16"))


@bomb("jsonl", 0, "UTF-32")
def utf_32(path: Path) -> None:
    path.write_bytes((good_row(1) + "\n").encode("utf-32"))


@bomb("jsonl", 0, "UTF-16")
def utf_16_without_a_mark(path: Path) -> None:
    path.write_bytes((good_row(1) + "\n").encode("utf-16-le"))


def atif(number: int, **changes: Any) -> dict[str, Any]:
    """Return a usable ATIF document."""
    return {
        "schema_version": "ATIF-v1.5",
        "session_id": f"session-{number}",
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": [{"source": "user", "message": "hi"}, {"source": "agent", "message": "hello"}],
        "extra": {"reward": 1.0, "trajectory_id": f"atif-{number}"},
        **changes,
    }


@bomb("json", 0, "memory")
def a_large_document(path: Path) -> None:
    text = json.dumps(atif(1, notes="NOTE"), indent=1).replace("NOTE", "x" * 80 * MB)
    path.write_text(text)


@bomb("jsonl", 2, "line 2", "memory")
def a_large_document_among_others(path: Path) -> None:
    big = json.dumps(atif(3, notes="NOTE")).replace("NOTE", "x" * 80 * MB)
    path.write_text("\n".join([json.dumps(atif(1)), big, json.dumps(atif(2))]) + "\n")


@bomb("json", 0, "nested")
def a_deep_document(path: Path) -> None:
    path.write_text(
        '{"schema_version": "ATIF-v1.5", "steps": [], "extra": ' + "[" * 100_000 + "]" * 100_000 + "}"
    )


@bomb("jsonl", 2)
def traces_in_circles(path: Path) -> None:
    def trace(number: int, parents: list[int | None]) -> str:
        nodes = [{"message": {"role": "user", "content": "hi"}, "parent": one} for one in parents]
        return json.dumps(
            {"id": f"trace-{number}", "task": {}, "agent": {}, "nodes": nodes, "is_completed": True}
        )

    path.write_text("\n".join([trace(1, [None, 0]), trace(2, [1, 2, 0, 0]), trace(3, [None])]) + "\n")


@bomb("jsonl.gz", 0)
def gzip_of_nothing(path: Path) -> None:
    packer = zlib.compressobj(9, wbits=31)
    path.write_bytes(packer.compress(b"\0" * 100 * MB) + packer.flush())
