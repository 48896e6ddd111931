"""Answers as files: requests appear, wait, and are answered; the recording replays without a server."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.bridge.bridge import Bridge
from trace_assets.diagnosis.llm.budget import open_account
from trace_assets.diagnosis.llm.client import ModelServer, Unanswered
from trace_assets.diagnosis.llm.recording import Answers, Recording, prompt_hash
from trace_assets.diagnosis.llm.request import Question
from trace_assets.errors import InputError
from trace_assets.settings import Analyst
from trace_assets.store import Store


class Word(BaseModel):
    word: str


def question(text: str) -> Question[Word]:  # type: ignore[type-var]
    return Question(kind="label", model="a-model", system="s", user=text, schema=Word)  # type: ignore[type-var]


def ask(home: Path, section: Analyst, *texts: str) -> tuple[list[str], int]:
    """Return the words that were answered, and the calls that were paid."""
    said: dict[str, str] = {}

    async def work(text: str) -> None:
        try:
            said[text] = (await server.ask(question(text))).word
        except Unanswered as fault:
            said[text] = fault.reason

    with open_account(Store(home / "t"), home / "answers", section, "labels", "b") as account:
        server = ModelServer(section, Answers(home / "answers"), account)
        server.run(texts, work)
        return [said[text] for text in texts], account.spent.calls


def sit_at(bridge: Bridge, answers: dict[str, list[str]], stop: threading.Event) -> None:
    """Answer what appears by the last words of the question, bad answers first."""
    while not stop.is_set():
        for request in bridge.open_requests:
            body = json.loads(request.read_text(encoding="utf-8"))
            asked = body["messages"][1]["content"]
            bridge.answer(request, answers[asked][0 if len(body["messages"]) == 2 else 1])
        time.sleep(0.02)


def test_files_answer_requests_and_the_recording_replays_them(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "model.jsonl"
    answers = {
        "one": ['Sure: {"word": "a"}'],
        "two": ['{"words": []}', '{"word": "b"}'],  # repaired once
        "three": ["!refuse\nI would rather not"],
    }
    stop = threading.Event()
    with Bridge(tmp_path / "folder", pause=0.02) as bridge:
        section = Analyst(base_url=bridge.url, recording=str(file), timeout_seconds=60, concurrency=2)
        sitter = threading.Thread(target=sit_at, args=(bridge, answers, stop), daemon=True)
        sitter.start()
        said, calls = ask(tmp_path / "home", section, *answers)
        again, none = ask(tmp_path / "home2", section, "one")
        stop.set()
        sitter.join()
        prompts = list((tmp_path / "folder").glob("*.prompt.txt"))
        assert not bridge.open_requests
    assert said == ["a", "b", "the model refused: I would rather not"] and calls == 4
    assert (again, none) == (["a"], 1), "an answer that is there is given at once"
    assert len(prompts) == 4 and "[user]" in prompts[0].read_text(encoding="utf-8")
    head, *rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert head["server"] == bridge.url and head["begun"]
    assert len(rows) == 4 and {row["model"] for row in rows} == {"a-model"}

    replay = Analyst(recording=str(file))
    replayed, paid = ask(tmp_path / "elsewhere", replay, *answers)
    assert (replayed, paid) == (said, 0)
    with pytest.raises(
        InputError, match=r"2 prompts \(label\) are not recorded in .*model\.jsonl, begun .*127"
    ):
        ask(tmp_path / "elsewhere", replay, "one", "four", "five")


def test_what_a_home_remembers_is_recorded_too(tmp_path: Path) -> None:
    with Bridge(tmp_path / "folder", pause=0.02) as bridge:
        body = {"model": "a-model", "messages": question("one").messages, "temperature": 0.0, "seed": 0}
        bridge.answer(tmp_path / "folder" / f"{prompt_hash(body)[:24]}.request.json", '{"word": "a"}')
        url = bridge.url
        ask(tmp_path / "home", Analyst(base_url=url), "one")
        file = tmp_path / "late.jsonl"
        assert ask(tmp_path / "home", Analyst(base_url=url, recording=str(file)), "one") == (["a"], 0)
    assert ask(tmp_path / "new", Analyst(recording=str(file)), "one") == (["a"], 0)


def test_a_recording_that_is_not_there_or_damaged_is_told_of_and_a_torn_line_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no recording at"):
        Recording(tmp_path / "none.jsonl")
    file = tmp_path / "r.jsonl"
    made = Recording(file, "http://x/v1")
    body = {"model": "m", "messages": []}
    made.add("k1", "label", body, {"text": "a"}, None)
    made.add("k1", "label", body, {"text": "a"}, None)
    assert len(file.read_text(encoding="utf-8").splitlines()) == 2, "the same answer is written once"
    with file.open("a", encoding="utf-8") as torn:
        torn.write('{"prompt": "k2", "te')
    again = Recording(file, "http://x/v1")
    assert len(again) == 1
    again.add("k3", "label", body, {"text": "c"}, None)
    assert len(Recording(file)) == 2
    file.write_text(file.read_text(encoding="utf-8").replace('"k1"', "k1"), encoding="utf-8")
    with pytest.raises(InputError, match=r"r\.jsonl, line 2"):
        Recording(file)
    file.write_text('{"id": 1}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1"):
        Recording(file)
