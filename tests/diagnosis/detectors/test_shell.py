"""An agent at a shell: what its lines do, which of their answers are failures, and what it leaves out."""

from __future__ import annotations

import pytest

from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.candidates import Pool
from trace_assets.diagnosis.detectors import Corpus, Transcript
from trace_assets.diagnosis.detectors.missing_looks import UnverifiedWrite, WriteWithoutRead
from trace_assets.diagnosis.detectors.repeated_calls import UnrecoveredError
from trace_assets.records import Message

LOG = "10:02 INFO start\nERROR parser: 3 failed\nTraceback (most recent call last):\nKeyError: 'id'"
GREEN, RED = "4 passed in 0.1s", "1 failed, 3 passed in 0.2s"


def bash(line: str, result: str = "") -> list[Message]:
    return call("bash", result or "(no output)", command=line)


EDITS = (
    "cd /app && sed -i 's/a/b/' {}",
    "python - <<'E'\nfrom pathlib import Path\np = Path('{}')\np.write_text('x')\nE",
    "cat > /tmp/fix.py <<'E'\nopen('{}', 'w').write(s)\nE\npython /tmp/fix.py",
)
TESTS = ("pytest -q", "cd /app && npx jest", "npm test", "python -m pytest tests")


def run(
    number: int, *, reads: bool = True, red: bool = False, tests: int = 1, last: str = GREEN
) -> Transcript:
    name = f"m{number % 7}.py"
    parts = [user("Mend the parser."), bash("cat app.log", LOG)]
    parts += (
        [bash(("cat {}", "sed -n 1,40p {}", "nl -ba /app/{}")[number % 3].format(name), "x = 1")]
        if reads
        else []
    )
    parts += [bash("pytest -q", RED)] if red else []
    parts += [bash(EDITS[number % 3].format(name))]
    parts += [bash(TESTS[number % 4], last)] * tests
    return transcript(*parts, bash("git diff --stat", "1 file changed"), agent("Done."), task=f"t/{number}")


CORPUS = Corpus([run(number, red=number % 2 == 0) for number in range(12)])


def test_programs_are_told_apart_by_what_they_do() -> None:
    assert CORPUS.mutating == {"edit_file"}
    assert (CORPUS.edits, CORPUS.tests) == (["edit_file"], ["run_tests"])


def test_an_error_in_what_is_only_shown_is_no_failure() -> None:
    failed = [step.arguments["command"] for one in CORPUS.transcripts for step in one.steps if step.failed]
    assert set(failed) == {"pytest -q"}


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("cat m.py", "cat: m.py: No such file or directory"),
        ("cat app.log", f"{LOG}\n[exit code: 1]"),
        ("npm run build", "> tsc -p .\nsrc/a.ts(4,7): error TS2551: no such property. Did you mean 'name'?"),
        ("python -m build", "/usr/bin/python: No module named build"),
        ("sudo usermod -aG dock kim", "usermod: group 'dock' does not exist"),
    ],
)
def test_a_programs_own_words_are(line: str, result: str) -> None:
    assert transcript(user("x"), bash(line, result)).steps[0].failed


def test_an_edit_that_found_no_place_failed() -> None:
    refused = call("edit_file", "old_text was not found in a.ts. Read it again.", path="a.ts")
    assert transcript(user("x"), refused).steps[0].failed


def test_tests_have_to_run_after_the_last_edit() -> None:
    proposal = next(
        one for one in UnverifiedWrite().propose(CORPUS) if one.subject == ("edit_file", "run_tests")
    )
    assert proposal.name == "Run the tests after editing the file"
    labels = [
        UnverifiedWrite().label(one, proposal.args).label for one in (run(1), run(2, red=True, tests=0))
    ]
    assert labels == ["PRESENT", "LACKING"]


def test_red_tests_have_to_be_mended_and_an_edit_answers_them() -> None:
    proposal = next(one for one in UnrecoveredError().propose(CORPUS) if one.subject == ("run_tests",))
    runs = run(1, red=True), run(1, last=RED), run(1, red=True, tests=0)
    labels = [UnrecoveredError().label(one, proposal.args).label for one in runs]
    assert labels == ["PRESENT", "LACKING", "NA"]


def test_a_file_is_read_before_it_is_edited_by_whatever_program() -> None:
    names = {one.name: one.args for one in WriteWithoutRead().propose(CORPUS)}
    args = names["Look up the file before editing the file"]
    labels = {
        WriteWithoutRead().label(run(number, reads=reads), args).label
        for number in range(6)
        for reads in (True,)
    }
    assert labels == {"PRESENT"}
    assert {WriteWithoutRead().label(run(number, reads=False), args).label for number in range(3)} == {
        "LACKING"
    }


def test_what_the_same_runs_lack_at_the_same_place_is_one_finding() -> None:
    """`Check the result after the last change` is lacking in the same runs."""
    bare = [transcript(user("x"), bash(EDITS[0].format("m.py")), task=f"b/{number}") for number in range(3)]
    other = [
        transcript(user("x"), call("send_note"), bash("git diff"), task=f"c/{number}") for number in range(7)
    ]
    shown = [run(number) for number in range(12)]
    family = UnverifiedWrite()
    pool = Pool.build(Corpus([*shown, *bare, *other]), [family])
    assert len(pool.proposals) == 2
    assert [pool.proposals[row].name for row in pool.findings(3)] == ["Run the tests after editing the file"]
