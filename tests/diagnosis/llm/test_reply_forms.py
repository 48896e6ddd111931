"""Replies are read as people read them: every natural form at once, and meaning strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trace_assets.diagnosis.llm.batches import Batch
from trace_assets.diagnosis.llm.causes import triage_question
from trace_assets.diagnosis.llm.discovery import discovery_question
from trace_assets.diagnosis.llm.found_again import recognise_question
from trace_assets.diagnosis.llm.json_reply import id_of, values_in
from trace_assets.diagnosis.llm.labelling import label_question
from trace_assets.diagnosis.llm.merging import merge_question
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.records import Capability, Message, Proposal, Trajectory
from trace_assets.settings import Discovery, Labels

NAMES = ("Look first", "Ask before paying", "State the fee")


def run(name: str = "t", success: bool | None = False) -> Trajectory:
    messages = tuple(Message(role=("user", "assistant")[n % 2], content=f"say {n}") for n in range(8))  # type: ignore[arg-type]
    return Trajectory(
        trajectory_id=name,
        task_id=f"x/{name}",
        target="x",
        task_batch="b",
        policy="p",
        success=success,
        messages=messages,
    )


def capability(name: str) -> Capability:
    return Capability(
        capability_id=name.replace(" ", "-"), target="x", name=name, description="d", analyst="m"
    )


QUESTION = label_question(Labels(model="m"), view(run(), 1000), [capability(name) for name in NAMES], 1)
ROWS: list[dict[str, Any]] = [
    {"id": "C1", "rationale": "It looked.", "evidence": [3, 5], "label": "PRESENT"},
    {"id": "C2", "rationale": "It paid unasked.", "evidence": [3], "label": "LACKING"},
    {"id": "C3", "rationale": "No fee.", "evidence": [], "label": "NA"},
]
GOOD = {"labels": ROWS}
MEANT = [("C1", "PRESENT", (3, 5)), ("C2", "LACKING", (3,)), ("C3", "NA", ())]
TEXT = json.dumps(GOOD)
PRETTY = json.dumps(GOOD, indent=2)


def rows(**changes: Any) -> list[dict[str, Any]]:
    return [{**row, **{key: value(row) for key, value in changes.items()}} for row in ROWS]


def labels(listed: list[dict[str, Any]]) -> str:
    return json.dumps({"labels": listed})


def without(name: str, where: int) -> str:
    return labels([{k: v for k, v in row.items() if k != name or n != where} for n, row in enumerate(ROWS)])


FORMS = {
    "as asked": TEXT,
    "pretty": PRETTY,
    "prose before": f"Here are the labels you asked for:\n\n{TEXT}",
    "prose after": f"{TEXT}\n\nLet me know if you want more detail!",
    "prose around with brackets": f"I read messages [3] and {{5}}.\n{TEXT}\nSee [3].",
    "fence": f"```json\n{PRETTY}\n```",
    "fence without a language": f"```\n{TEXT}\n```",
    "fence of tildes": f"~~~json\n{TEXT}\n~~~",
    "fence never closed": f"```json\n{PRETTY}\n",
    "inline code": f"`{TEXT}`",
    "think": f"<think>C1 is {{hard}} ...</think>\n{TEXT}",
    "think only opened": f"<think>C1 looks fine, so\n{TEXT}",
    "think only closed": f'Hm, {{"labels": []}} is too short.\n</think>\n{TEXT}',
    "think with a draft": f"<think>{labels(ROWS[:1])}</think>{TEXT}",
    "thinking": f"<thinking>[1, 2]</thinking>{TEXT}",
    "gpt-oss channels": f"<|channel|>analysis<|message|>[x]<|channel|>final<|message|>{TEXT}",
    "trailing commas": PRETTY.replace("}\n  ]", "},\n  ],").replace('"PRESENT"', '"PRESENT",'),
    "line comments": PRETTY.replace('"PRESENT"', '"PRESENT" // it did'),
    "block comments": PRETTY.replace('"PRESENT"', '/* yes */ "PRESENT"'),
    "hash comments": PRETTY.replace('"PRESENT"', '"PRESENT"  # it did'),
    "raw line breaks": TEXT.replace("It looked.", "It looked.\nTwice.\tOnce more."),
    "top-level list": json.dumps(ROWS),
    "dict by id": json.dumps({row["id"]: {k: v for k, v in row.items() if k != "id"} for row in ROWS}),
    "dict by id under labels": json.dumps({"labels": {row["id"]: row for row in ROWS}}),
    "dict by id with names": json.dumps(
        {
            f"{row['id']}: {name}": {k: v for k, v in row.items() if k != "id"}
            for row, name in zip(ROWS, NAMES, strict=True)
        }
    ),
    "dict by name": json.dumps(
        {name: {k: v for k, v in row.items() if k != "id"} for row, name in zip(ROWS, NAMES, strict=True)}
    ),
    "wrapper": json.dumps({"answer": GOOD}),
    "two wrappers": json.dumps({"response": {"output": GOOD}}),
    "wrapper with a list": json.dumps({"result": ROWS}),
    "wrapper of another name": json.dumps({"capabilities": ROWS}),
    "wrapper named as the schema": json.dumps({"label": GOOD}),
    "schema and properties": json.dumps({"type": "object", "properties": GOOD}),
    "extra keys at the top": json.dumps({"thoughts": "hm", **GOOD, "confidence": 0.9}),
    "extra keys in a row": labels(rows(confidence=lambda _: 0.7, name=lambda _: "x")),
    "N/A": TEXT.replace('"NA"', '"N/A"'),
    "n.a.": TEXT.replace('"NA"', '"n.a."'),
    "Not applicable": TEXT.replace('"NA"', '"Not applicable"'),
    "not needed": TEXT.replace('"NA"', '"not needed"'),
    "lower case": TEXT.replace("PRESENT", "present").replace("LACKING", "Lacking"),
    "blanks around the word": TEXT.replace('"PRESENT"', '" PRESENT. "'),
    "bold": TEXT.replace('"LACKING"', '"**LACKING**"'),
    "backquotes": TEXT.replace('"LACKING"', '"`LACKING`"'),
    "word with a remark": TEXT.replace('"PRESENT"', '"PRESENT (see message 3)"'),
    "evidence a string": TEXT.replace("[3]", '"3"'),
    "evidence strings": TEXT.replace("[3, 5]", '["3", "5"]'),
    "evidence a number": TEXT.replace("[3]", "3"),
    "evidence a float": TEXT.replace("[3]", "3.0"),
    "evidence floats": TEXT.replace("[3, 5]", "[3.0, 5.0]"),
    "evidence words": TEXT.replace("[3, 5]", '["message 3", "#5"]'),
    "evidence one string of several": TEXT.replace("[3, 5]", '"3, 5"'),
    "evidence objects": TEXT.replace("[3, 5]", '[{"index": 3, "quote": "x"}, {"index": 5}]'),
    "evidence null": TEXT.replace("[]", "null"),
    "evidence nested": TEXT.replace("[3, 5]", "[[3], [5]]"),
    "evidence in brackets": TEXT.replace("[3, 5]", '"[3, 5]"'),
    "empty evidence missing": without("evidence", 2),
    "empty rationale missing": without("rationale", 2),
    "rationale null": labels([ROWS[0], ROWS[1], {**ROWS[2], "rationale": None}]),
    "reordered": labels(ROWS[::-1]),
    "fields reordered": labels([dict(reversed(row.items())) for row in ROWS]),
    "ids with names": labels([{**r, "id": f"{r['id']}: {n}"} for r, n in zip(ROWS, NAMES, strict=True)]),
    "ids with names in brackets": labels(
        [{**r, "id": f"{r['id']} ({n})"} for r, n in zip(ROWS, NAMES, strict=True)]
    ),
    "names for ids": labels([{**r, "id": n.lower()} for r, n in zip(ROWS, NAMES, strict=True)]),
    "ids in lower case": TEXT.replace('"C', '"c'),
    "ids as numbers": labels([{**row, "id": n} for n, row in enumerate(ROWS, 1)]),
    "ids as digits": labels([{**row, "id": str(n)} for n, row in enumerate(ROWS, 1)]),
    "ids in brackets": TEXT.replace('"C1"', '"[C1]"'),
    "ids padded": TEXT.replace('"C1"', '"C01"').replace('"C2"', '"C-2"'),
    "ids with a word": TEXT.replace('"C1"', '"Capability C1"'),
    "capability_id": TEXT.replace('"id"', '"capability_id"'),
    "keys in capitals": TEXT.replace('"id"', '"ID"').replace('"label"', '"Label"'),
    "reason and verdict": TEXT.replace('"rationale"', '"reason"').replace('"label"', '"verdict"'),
    "arguments of a tool call": json.dumps({"name": "label", "arguments": GOOD}),
    "arguments as text": json.dumps({"name": "label", "arguments": TEXT}),
    "tool calls of the API": json.dumps({"tool_calls": [{"function": {"name": "label", "arguments": TEXT}}]}),
    "tool call in tags": f'<tool_call>\n{{"name": "label", "arguments": {TEXT}}}\n</tool_call>',
    "in a list": json.dumps([GOOD]),
    "one object a line": "\n".join(map(json.dumps, ROWS)),
    "one object a line with commas": ",\n".join(map(json.dumps, ROWS)),
    "numbered objects": "\n".join(f"{n}. {json.dumps(row)}" for n, row in enumerate(ROWS, 1)),
    "a list of dicts by id": json.dumps(
        [{row["id"]: {k: v for k, v in row.items() if k != "id"}} for row in ROWS]
    ),
    "one object a capability": "\n\n".join(labels([row]) for row in ROWS),
    "JSON within a string": json.dumps(TEXT),
    "rows as strings": json.dumps({"labels": [json.dumps(row) for row in ROWS]}),
    "labels as a string": json.dumps({"labels": json.dumps(ROWS)}),
    "one bad index": TEXT.replace("[3, 5]", "[3, 5, 99]"),
    "a negative index": TEXT.replace("[3, 5]", "[3, -1, 5]"),
    "every index of a lack is bad": TEXT.replace("[3]", "[3, 400]"),
    "one unknown id": labels([*ROWS, {**ROWS[0], "id": "C9"}]),
    "an item that is no object": json.dumps({"labels": [*ROWS, "done"]}),
    "an unusable extra item": labels([*ROWS, {"id": "C4"}]),
    "said twice alike": labels([*ROWS, ROWS[0]]),
    "single quotes": str(GOOD),
    "Python literals": str({"labels": ROWS, "sure": True, "note": None}),
    "keys without quotes": TEXT.replace('"id":', "id:").replace('"label":', "label:"),
    "words without quotes": TEXT.replace('"PRESENT"', "PRESENT"),
    "typographic quotes": TEXT.replace('"PRESENT"', "“PRESENT”").replace('"id"', "“id”"),
    "quotes that are not escaped": TEXT.replace("It looked.", 'It said "yes, I do", then "no".'),
    "escapes that do not exist": TEXT.replace("It looked.", r"It paid \$5 and it\'s fine\_."),
    "commas missing": PRETTY.replace("},", "}").replace('"PRESENT",', '"PRESENT"'),
    "semicolons": TEXT.replace("}, {", "}; {"),
    "a bracket missing at the end": TEXT[:-1],
    "both brackets missing at the end": TEXT[:-2],
    "a brace too many": TEXT + "}",
    "a draft, then the answer": f"{TEXT.replace('PRESENT', 'NA')}\nWait, that is wrong:\n{TEXT}",
    "the form repeated": f'As {{"labels": [{{"id": "C1", ...}}]}} asks:\n{TEXT}',
    "byte order mark": "\ufeff" + TEXT,
    "blanks that are none": TEXT.replace(": ", ":\u00a0"),
    "zero-width blanks": TEXT.replace("[{", "[\u200b{"),
    "HTML entities": TEXT.replace('"', "&quot;"),
    "CRLF": PRETTY.replace("\n", "\r\n"),
    "a NaN": json.dumps({**GOOD, "score": float("nan")}),
    "unicode escapes": TEXT.replace("It looked.", "It looked \\u2014 twice \\ud83d\\ude00"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_natural_form_is_read_at_once(form: str) -> None:
    answer, complaints = QUESTION.read(FORMS[form])
    assert complaints == []
    assert answer is not None
    assert [(one.id, one.label, tuple(one.evidence)) for one in answer.labels] == MEANT


STRICT = {
    "no words of the schema": (TEXT.replace('"NA"', '"MAYBE"'), "C3 is missing"),
    "an ambiguous word": (TEXT.replace('"LACKING"', '"NOT PRESENT"'), "C2 is missing"),
    "two words": (TEXT.replace('"LACKING"', '"LACKING or NA"'), "C2 is missing"),
    "both words": (TEXT.replace('"LACKING"', '"PRESENT/LACKING"'), "C2 is missing"),
    "absent": (TEXT.replace('"LACKING"', '"absent"'), "C2 is missing"),
    "partial": (TEXT.replace('"LACKING"', '"PARTIALLY PRESENT"'), "C2 is missing"),
    "no label": (without("label", 1), "C2 is missing"),
    "a label left out": (labels(ROWS[:2]), "C3 is missing"),
    "an id that is none": (TEXT.replace('"C2"', '"C9"'), "C2 is missing"),
    "an id within a longer one": (TEXT.replace('"C1"', '"C12"'), "C1 is missing"),
    "contradicting labels": (labels([*ROWS, {**ROWS[2], "label": "LACKING"}]), "C3 is missing"),
    "a contradicting key": (TEXT.replace('"NA"', '"NA", "label": "LACKING"'), "C3 is missing"),
    "present without evidence": (TEXT.replace("[3, 5]", "[]"), "PRESENT needs evidence"),
    "present with wild evidence": (TEXT.replace("[3, 5]", "[99]"), "C1 is missing"),
    "lacking by another transcript's messages": (TEXT.replace("[3]", "[99]"), "C2 is missing"),
    "an endless number": (TEXT.replace("[3]", f"[{'3' * 5000}]"), "C2 is missing"),
    "an id of an endless number": (TEXT.replace('"C2"', f'"C{"2" * 5000}"'), "C2 is missing"),
    "lacking without a rationale": (TEXT.replace("It paid unasked.", " "), "LACKING needs a rationale"),
    "cut in the middle": (TEXT[: len(TEXT) // 2], "is missing"),
    "cut within the last word": (TEXT[: TEXT.rindex("NA") + 1], "C3 is missing"),
    "prose": ("The agent did rather well, I would say.", "no JSON object"),
    "nothing": ("", "no JSON object"),
    "another object": ('{"rating": 5}', "no JSON object"),
    "empty": ('{"labels": []}', "C1 is missing"),
}


@pytest.mark.parametrize("form", STRICT)
def test_meaning_is_never_guessed_and_the_rest_is_kept(form: str) -> None:
    text, words = STRICT[form]
    answer, complaints = QUESTION.read(text)
    assert answer is None
    assert words in "; ".join(complaints)
    piece, _ = QUESTION.piece(text)
    good = {one.id: one.label for one in piece.labels} if piece else {}
    assert all(good.get(name) in (None, label) for name, label, _ in MEANT)
    if words.endswith("is missing") and words != "is missing" and "C1" not in words:
        assert good["C1"] == "PRESENT"


def test_what_is_still_open_is_joined_to_what_was_good() -> None:
    piece, complaints = QUESTION.piece(labels([ROWS[0], {**ROWS[1], "label": "hm"}, ROWS[2]]))
    assert complaints[0].startswith("the label for C2")
    answer, complaints = QUESTION.piece(labels([ROWS[1]]), piece)
    assert complaints == []
    assert answer is not None and [one.id for one in answer.labels] == ["C1", "C2", "C3"]


@pytest.mark.parametrize("word", ["CANNOT_TELL", "cannot tell", "Can't tell", "unclear", "Unknown"])
def test_not_knowing_is_an_answer(word: str) -> None:
    answer, complaints = QUESTION.read(TEXT.replace('"LACKING"', json.dumps(word)))
    assert complaints == [] and answer is not None
    assert answer.labels[1].label == "CANNOT_TELL"


PROPOSALS = [
    {"name": "Look first", "description": "When asked, look at the order.", "transcripts": ["T1", "T3"]},
    {"name": "Ask", "description": "Before paying, ask the user.", "transcripts": ["T3"]},
]
DISCOVERY = discovery_question(
    Discovery(model="m"), Batch(1, (run("a"), run("b")), (run("c", True), run("d", True))), 1000
)[0]
PROPOSED = {
    "as asked": {"proposals": PROPOSALS},
    "list": PROPOSALS,
    "capabilities": {"capabilities": PROPOSALS},
    "other names": [
        {"title": p["name"], "definition": p["description"], "episodes": p["transcripts"]} for p in PROPOSALS
    ],
    "transcripts as text": [{**p, "transcripts": ", ".join(p["transcripts"])} for p in PROPOSALS],
    "transcripts as numbers": [
        {**p, "transcripts": [int(t[1:]) for t in p["transcripts"]]} for p in PROPOSALS
    ],
    "transcripts in words": [
        {**p, "transcripts": [f"Transcript {t}" for t in p["transcripts"]]} for p in PROPOSALS
    ],
    "transcripts as objects": [
        {**p, "transcripts": [{"id": t} for t in p["transcripts"]]} for p in PROPOSALS
    ],
    "passed ones named too": [{**p, "transcripts": [*p["transcripts"], "T2", "T99"]} for p in PROPOSALS],
    "one bad item": [*PROPOSALS, {"name": "x"}],
    "an empty description": [*PROPOSALS, {"name": "Third", "description": "", "transcripts": ["T1"]}],
    "a name twice": [*PROPOSALS, {**PROPOSALS[0], "name": "look  first"}],
    "dict by name": {p["name"]: {k: v for k, v in p.items() if k != "name"} for p in PROPOSALS},
}


@pytest.mark.parametrize("form", PROPOSED)
def test_proposals_in_every_form_are_read_at_once(form: str) -> None:
    answer, complaints = DISCOVERY.read(json.dumps(PROPOSED[form]))
    assert complaints == [] and answer is not None
    assert [(one.name, one.transcripts) for one in answer.proposals] == [
        ("Look first", ["T1", "T3"]),
        ("Ask", ["T3"]),
    ]


def test_proposals_that_are_none_are_refused_and_too_many_are_cut() -> None:
    assert DISCOVERY.read('{"proposals": []}')[0] is not None, "nothing is an answer"
    for bad in ({"transcripts": []}, {"transcripts": ["T2"]}, {"name": "x"}, {"description": "short"}):
        assert DISCOVERY.read(json.dumps([{**PROPOSALS[0], **bad}]))[0] is None, bad
    many = [{**PROPOSALS[0], "name": f"Do thing {n}"} for n in range(12)]
    answer, _ = DISCOVERY.read(json.dumps(many))
    assert answer is not None and len(answer.proposals) == 8


def proposal(number: int, name: str) -> Proposal:
    return Proposal(
        target="x",
        analyst="m",
        proposal_id=f"p{number}-1",
        discovery_pass=number,
        name=name,
        description="d" * 12,
    )


MERGE = merge_question(
    Discovery(model="m"), [proposal(n, name) for n, name in enumerate(("aa b", "cc d", "ee f", "gg h"), 1)]
)
GROUPS = [
    {"name": "Aa", "description": "x", "members": ["P1", "P3"]},
    {"name": "Cc", "description": "y", "members": ["P2"]},
    {"name": "Gg", "description": "z", "members": ["P4"]},
]
MERGED = {
    "as asked": {"groups": GROUPS, "parents": []},
    "no parents": {"groups": GROUPS},
    "list": GROUPS,
    "members as text": [{**g, "members": ",".join(g["members"])} for g in GROUPS],
    "members by name": [{**GROUPS[0], "members": ["aa b", "ee f"]}, *GROUPS[1:]],
    "one forgotten": [*GROUPS[:2]],
    "one unknown": [{**GROUPS[0], "members": ["P1", "P3", "P9"]}, *GROUPS[1:]],
    "an empty group": [*GROUPS, {"name": "Zz", "description": "", "members": []}],
    "one name twice": [{**GROUPS[0], "members": ["P1"]}, *GROUPS[1:], {**GROUPS[0], "members": ["P3"]}],
}


@pytest.mark.parametrize("form", MERGED)
def test_groups_in_every_form_are_read_at_once(form: str) -> None:
    answer, complaints = MERGE.read(json.dumps(MERGED[form]))
    assert complaints == [] and answer is not None
    assert [one.members for one in answer.groups] == [["P1", "P3"], ["P2"], ["P4"]]


def test_a_proposal_in_two_groups_is_asked_about_and_settled_by_the_first_in_the_end() -> None:
    text = json.dumps(
        {"groups": [*GROUPS, {"name": "Zz", "description": "w", "members": ["P1"]}], "parents": []}
    )
    answer, complaints = MERGE.read(text)
    assert answer is None and complaints == ["P1 is in more than one group"]
    piece, _ = MERGE.piece(text)
    assert piece is not None
    settled = MERGE.rest(piece)
    assert settled is not None and [one.members for one in settled.groups] == [["P1", "P3"], ["P2"], ["P4"]]
    assert MERGE.read('{"groups": []}')[0] is None


def test_parents_name_groups_in_any_way_and_need_two() -> None:
    parents = [
        {"name": "Broad", "description": "of both", "members": ["aa", "Cc", "nothing"]},
        {"name": "Narrow", "description": "of one", "members": ["Gg"]},
    ]
    answer, complaints = MERGE.read(json.dumps({"groups": GROUPS, "parents": parents}))
    assert complaints == [] and answer is not None
    assert [(one.name, one.members) for one in answer.parents] == [("Broad", ["Aa", "Cc"])]


RECOGNISE = recognise_question(
    Discovery(model="m"), [capability("a b"), capability("c d")], [capability("e f")]
)


@pytest.mark.parametrize(
    "value",
    [
        {"same": [{"new": "N2", "known": "K1"}]},
        [{"new": "N2", "known": "K1"}],
        {"pairs": [{"new": "n2", "known": "k1"}]},
        {"same": [{"new": "N2: c d", "known": "K1 (e f)"}, {"new": "N7", "known": "K1"}]},
        {"same": [{"new_id": "N2", "known_id": "K1"}]},
    ],
    ids=str,
)
def test_pairs_in_every_form_are_read_at_once(value: Any) -> None:
    answer, complaints = RECOGNISE.read(json.dumps(value))
    assert complaints == [] and answer is not None
    assert [(one.new, one.known) for one in answer.same] == [("N2", "K1")]


TRIAGE = triage_question("m", run(), 1000)


@pytest.mark.parametrize(
    "text",
    [
        '{"rationale": "It left.", "evidence": [4], "fault": "user_simulator"}',
        '{"rationale": "It left.", "evidence": "4", "fault": "User simulator"}',
        '{"answer": {"reason": "It left.", "evidence": [4, 77], "blame": "user"}}',
        '[{"rationale": "It left.", "evidence": [4.0], "fault": "the user"}]',
        'I blame it:\n```\n{fault: "user-simulator", evidence: 4, rationale: "It left.",}\n```',
        '{"name": "t", "arguments": {"rationale": "It left.", "evidence": [4], "fault": "user_simulator"}}',
    ],
)
def test_a_ruling_in_every_form_is_read_at_once(text: str) -> None:
    answer, complaints = TRIAGE.read(text)
    assert complaints == [] and answer is not None
    assert (answer.fault, answer.evidence) == ("user_simulator", [4])


@pytest.mark.parametrize(
    ("word", "party"),
    [
        ("ground_truth", "ground_truth"),
        ("The ground truth", "ground_truth"),
        ("grader", "ground_truth"),
        ("Infrastructure", "infrastructure"),
        ("harness", "infrastructure"),
        ("tools", "environment"),
    ],
)
def test_every_party_can_be_named(word: str, party: str) -> None:
    answer, complaints = TRIAGE.read(json.dumps({"rationale": "So.", "evidence": [4], "fault": word}))
    assert complaints == [] and answer is not None and answer.fault == party


def test_nobody_is_accused_without_evidence() -> None:
    assert TRIAGE.read('{"rationale": "It left.", "evidence": [77], "fault": "environment"}')[0] is None
    assert TRIAGE.read('{"rationale": "Both.", "evidence": [1], "fault": "agent or user"}')[0] is None
    assert TRIAGE.read('{"rationale": "So.", "evidence": [], "fault": "ground_truth"}')[0] is None
    assert TRIAGE.read('{"fault": "agent"}')[0] is not None


def test_ids_that_could_be_two_are_none() -> None:
    assert id_of("Look", {"C1": "Look", "C2": "look!"}) == ""
    assert id_of("1", {"C1": "", "K1": ""}) == ""


@pytest.mark.ci
def test_a_hostile_text_is_read_in_time_that_grows_with_it_alone() -> None:
    for text in ("[" * 200_000, '{"a": "' * 30_000, "{" + '"' * 200_000, "[1, " * 50_000 + "x}"):
        assert isinstance(values_in(text[:200_000]), list)
