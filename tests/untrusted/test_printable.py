"""Nothing from outside steers a terminal, or is markup, on any way out."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from trace_assets.cli.options import PrintableStream, console, guard_streams
from trace_assets.errors import InputError
from trace_assets.orchestration.pages import markdown, small_table
from trace_assets.untrusted.printable import in_markdown, one_line, plain, printable

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\x\x9b2J\x85\x00\x08\r\u202egnp\u2066\u200b\ufeff\U000e0041\u3164\xad"
    "[link=http://evil]a[/link][/]<script>alert(1)</script>![i](http://evil/p.png)[l](javascript:x)|`"
)
STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u3164\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e0fff]"
)
TEXT = st.text(st.characters() | st.sampled_from(HOSTILE), max_size=60)
PLOT = "![a plot](data:image/svg+xml;base64,PHN2Zz4=)"


@given(TEXT)
def test_what_is_spelt_out_steers_nothing(text: str) -> None:
    assert not STEERS.search(printable(text)) and not STEERS.search(one_line(text))
    assert "\n" not in one_line(text)
    assert printable(printable(text)) == printable(text)
    printable(text).encode()
    assert not STEERS.search(str(InputError(text)))


SEEN = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Characters of format that are drawn: signs around numbers."""
JOINERS = {0x200C, 0x200D}
"""Whose words and emoji are written with them."""


def test_every_character_that_unicode_calls_format_or_control_is_spelt_out() -> None:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    unseen = {code for code in range(0x110000) if unicodedata.category(chr(code)) in kinds}
    kept = {code for code in unseen if printable(chr(code)) == chr(code)}
    assert kept - SEEN == {ord("\t"), ord("\n")} | JOINERS


def test_streams_that_were_closed_lead_nowhere_and_leave_their_numbers_to_no_other_file() -> None:
    if (child := os.fork()) == 0:  # begun by `trace ... <&- >&- 2>&-`
        os.closerange(0, 3)
        sys.stdout = sys.stderr = None
        guard_streams()
        print("said to nobody", file=sys.stderr)
        console().print("nor is this")
        os._exit(os.open("/dev/null", os.O_RDONLY))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) > 2


@given(TEXT, TEXT)
def test_a_page_has_no_markup_but_the_plots_of_ours(before: str, after: str) -> None:
    page = in_markdown(f"{before}\n\n{PLOT}\n\n{after}")
    assert PLOT in page
    assert "<" not in page and "[" not in page.replace(PLOT, "")
    said = plain(before)
    assert not re.search(r"<[a-zA-Z/!?]|\]\(|\]\[|!\[|\]:", said)


def test_only_a_page_that_is_one_fence_is_code() -> None:
    code = "````python\na[0] < b ```\n````"
    assert in_markdown(code) == code
    for page in ("```\na\n```\n<b>", "```\na\n```\n<b>\n```", "``\n<b>\n``", "```<b>\n```", "```\n<b>"):
        assert "<" not in in_markdown(page)
    shown = markdown(HOSTILE).value
    assert "<script" not in shown and "[l]" not in shown and not STEERS.search(shown)
    (row,) = small_table([{"name": HOSTILE, "n": 1}]).records
    assert not STEERS.search(str(row.data["name"])) and "<script" not in str(row.data["name"])


def drawn(*things: object) -> str:
    file = io.StringIO()
    shown = console(file=file, width=200)
    for thing in things:
        shown.print(thing, markup=False, soft_wrap=True)
    return file.getvalue()


def test_a_console_draws_its_own_colours_only() -> None:
    table = Table(HOSTILE, title=Text(HOSTILE))
    table.add_row(Text(HOSTILE), Text("b", style="link http://evil"))
    assert not STEERS.search(drawn(HOSTILE, Text(HOSTILE), table, [HOSTILE]))
    file = io.StringIO()
    forced = console(file=file, width=200)
    forced._force_terminal = True
    forced.print(Text(HOSTILE, style="bold link http://evil"), Text("x", style="red"))
    assert "evil\x1b\\" not in file.getvalue() and "\x1b]8" not in file.getvalue()
    assert not STEERS.search(re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()))


def test_a_stream_spells_out_all_but_a_bar() -> None:
    file = io.StringIO()
    stream = PrintableStream(file)
    print(HOSTILE, file=stream)  # type: ignore[call-overload]
    assert not STEERS.search(file.getvalue())
    stream.write("\r 10 %")
    assert file.getvalue().endswith("\r 10 %")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home into which a hostile file was ingested."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [
        {
            "trajectory_id": f"t{n}{HOSTILE}",
            "task_id": f"task{HOSTILE}",
            "reward": n % 2,
            HOSTILE: 1,
            "messages": [
                {"role": "user", "content": HOSTILE},
                {"role": "assistant", "content": HOSTILE},
                {HOSTILE: HOSTILE},
            ][: 2 + (n == 3)],
        }
        for n in range(6)
    ]
    (folder / "bad.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + '\n{"\\u001b[2J": 1}\n')
    return folder


def run_in_a_terminal(trace_command: list[str], home: Path, *arguments: str) -> str:
    """Run `trace` in a pseudo-terminal and return what it wrote there."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TRACE_HOME": str(home / "home"), "TERM": "xterm-256color", "COLUMNS": "160"}
    process = subprocess.Popen(
        [*trace_command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env=environment,
        cwd=home,
        close_fds=True,
    )
    os.close(follower)
    found = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        found += part
    process.wait()
    os.close(leader)
    return found.decode("utf-8", "replace")


OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[[0-9]*[AKG]|\x1b\[2K|\r")
"""Colours, and what a progress bar moves the cursor with."""


@pytest.mark.ci
def test_no_door_lets_anything_into_a_terminal(home: Path, trace_command: list[str]) -> None:
    query = "SELECT content, trajectory_id FROM messages LIMIT 3"
    for arguments in (
        ["ingest", "bad.jsonl"],
        ["ingest", f"no{HOSTILE.replace(chr(0), '').replace('/', '')}.jsonl"],
        ["sql", query],
        ["sql", query, "--format", "csv"],
        ["sql", query, "--format", "json"],
        ["sql", "SELECT '\x1b[2J' AS \"\u202e\x1b[2J\" FROM nothing\x1b[2J"],
        ["sql", "SELECT chr(27) || '[2J' AS \"\u202ex\""],
        ["diagnose"],
        ["sql", "--set", "selection.min_gap=\x1b[2J"],
        ["contract"],
    ):
        shown = OURS.sub("", run_in_a_terminal(trace_command, home, *arguments))
        assert shown and not STEERS.search(shown), (arguments, shown[:2000])
        assert "Traceback" not in shown, shown[-3000:]
    assert pl.read_parquet(home / "home" / "tables" / "messages").height
