"""Numbers on the command line that mean nothing are refused in one sentence, at every option."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from typer.main import get_command

from trace_assets.cli.lazy import LazyCommand
from trace_assets.cli.main import app, main

UNBOUNDED = {
    "tournament run --hours",  # as long as somebody likes
    "targets parity --margin",  # above 1 all agree
    "targets parity --patience",
}
SAID_BY_SETTINGS = {"demo --rounds"}
OF_DESIGN = {
    "--gap",
    "--gain",
    "--coverage",
    "--er-passed",
    "--pass-rate",
    "--icc",
    "--discordance",
    "--gpu-usd",
}
"""Options of `trace plan` whose bounds are those of the design, which depend on each other."""


def _leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, LazyCommand):
        command = command.load()
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    else:
        for each, sub in inner.items():
            yield from _leaves(sub, f"{name} {each}".strip())


OPTIONS = {
    f"{name} {one.opts[0]}": one
    for name, command in _leaves(get_command(app), "")
    for one in command.params
    if isinstance(one.type, click.types.IntParamType | click.types.FloatParamType)
}


def _takes(option: click.Parameter, text: str) -> bool:
    try:
        option.type.convert(text, option, None)
    except click.BadParameter:
        return False
    return True


def test_every_number_has_its_bounds_and_is_finite() -> None:
    assert len(OPTIONS) >= 30
    for name, option in OPTIONS.items():
        bad = ["nan", "inf", "-inf", "", "é", "1e999"]
        if name.rpartition(" ")[2] not in OF_DESIGN:
            bad += ["-3"]
        if name not in UNBOUNDED | SAID_BY_SETTINGS and name.rpartition(" ")[2] not in OF_DESIGN:
            bad += [str(10**30)]
        assert [text for text in bad if _takes(option, text)] == [], name
        assert option.default is None or _takes(option, str(option.default)), name


def trace(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sync --dry-run --jobs -3", "--jobs"),
        ("demo --jobs 100000", "--jobs"),
        ("plan --gap 0.3 --trials 10000000", "--trials"),
        ("plan --gap 0.3 --tasks 0", "--tasks"),
        ("plan --gap nan", "not a finite number"),
        ("plan --gap 0.3 --coverage -1", "such a study cannot be"),
        ("plan --gap 30", "a share of at most 1 (30 points are 0.3)"),
        ("plan --gain 5", "a share between 0 and 1 (10 points are 0.1)"),
        ("compare gpt claude", "there are no policies in this study yet"),
        ("plan --gain 0.1 --discordance 3", "such a study cannot be"),
        ("tasks make --seed -1", "--seed"),
        ("sql SELECT --seconds 1e300", "--seconds"),
    ],
)
def test_such_a_number_ends_in_one_sentence(
    command: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, *command.split()) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize("target", ["tau2:airline", "openenv:desk"])
@pytest.mark.parametrize("command", ["plan", pytest.param("sync --dry-run", marks=pytest.mark.ci)])
def test_a_plan_for_a_target_whose_packages_are_not_installed_says_so(
    command: str,
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    monkeypatch.setattr("trace_assets.targets.registry.find_spec", lambda _: None)
    assert trace(monkeypatch, *command.split(), "--json", "--set", f"targets.name={target}") == 3
    done = capsys.readouterr()
    assert " installed" in done.err and json.loads(done.out), "what is known is printed all the same"


def test_an_interpreter_that_is_gone_is_not_installed_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "targets" / "tau2" / "target.json"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"name": "tau2", "python": str(tmp_path / "gone"), "source": "/tmp"}))
    monkeypatch.setenv("TRACE_HOME", str(tmp_path))
    assert trace(monkeypatch, "sync", "--dry-run", "--json", "--set", "targets.name=tau2:airline") == 3
    assert "is not there any more" in capsys.readouterr().err
