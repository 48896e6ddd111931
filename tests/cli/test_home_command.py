"""`trace home` and `trace doctor --store`: what they print, what they refuse, and their exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.store.objects.homes import make_home, words_of, write
from tests.store.objects.s3_server import SECRET, S3Server, serving
from trace_assets.cli.doctor import doctor
from trace_assets.cli.home import home as command
from trace_assets.errors import InputError, Unavailable

URL = "s3://bucket/study"


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving() as one:
        yield one


def run(*arguments: object) -> str:
    done = CliRunner().invoke(command, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_there_and_back(server: S3Server, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    said = json.loads(run("copy", home.path, URL, "--json"))
    assert said["changed"] and said["moved"] == said["files"]
    assert "held" in run("copy", home.path, URL) and "0 contents of 0 bytes sent" in run(
        "copy", home.path, URL
    )
    assert "contents of" in run("copy", URL, tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"
    write(home, "shop", "second")
    run("copy", home.path, URL)
    assert json.loads(run("clean", URL, "--json")) == {"address": URL, "removed": 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("copy", "a", "b"), "one of the two is a folder"),
        (("copy", URL, "s3://bucket/other"), "one of the two is a folder"),
        (("copy", "nowhere", URL), "is no home"),
        (("copy", URL, "back", "--again"), "--again is for a copy to a store"),
        (("copy", f"s3://me:{SECRET}@bucket/study", "back"), "neither user, password"),
        (("clean", "study"), "neither a folder nor an object store"),
    ],
)
def test_wrong_use_is_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        run(*arguments)
    assert SECRET not in str(caught.value)


def test_the_doctor_says_whether_a_store_can_hold_a_home(
    server: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor(store=URL, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"store": URL, "ok": True}
    server.fault = lambda request: "unconditional"
    with pytest.raises(Unavailable, match="cannot hold a home"):
        doctor(store=URL)
