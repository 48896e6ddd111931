from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from tests.untrusted.test_printable import HOSTILE as STEERING
from tests.untrusted.test_printable import STEERS
from trace_assets.diagnosis.leak import empty_contrast
from trace_assets.records import Capability, CompositionChoice, MessageRow, ProposedFinding, ToolCall
from trace_assets.report.data import ReportData, Sample
from trace_assets.report.headline import headline
from trace_assets.report.page import render
from trace_assets.report.terminal import print_diagnosis
from trace_assets.report.views.deficits import deficits_view
from trace_assets.settings import Selection
from trace_assets.stats.intervals import wilson

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Checker(HTMLParser):
    """Collects tags, ids, links and text; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"handler {name} in <{tag}>"
            assert name != "src"
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


def words(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(Checker(page).text))


def test_complete_page_is_well_formed_and_self_contained(complete: ReportData) -> None:
    page = render(complete)
    keep = os.environ.get("TRACE_KEEP_PAGE")
    if keep:
        Path(keep).write_text(page, encoding="utf-8")
    checker = Checker(page)
    assert not checker.tags & {"script", "img", "link", "iframe", "object", "b>"} - {"b"}
    assert all(link.startswith("#") for link in checker.links)
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert len(checker.ids) == len(set(checker.ids))
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "not run yet" not in page
    assert len(page) < 1_000_000


def test_what_comes_from_data_is_escaped(complete: ReportData) -> None:
    page = render(complete)
    assert "<script" not in page and "<img" not in page
    assert page.count("</style>") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<b>&</b>" not in page and "Finishes every request of a message <b>&</b> 'both'" in words(page)


def test_result_comes_first_with_interval_and_n(complete: ReportData) -> None:
    text = words(render(complete))
    assert re.search(
        r"Taught 3 capabilities and routed to the right one, the agent passes [\d.]+ % on 240 tasks", text
    )
    routed = complete.overall["routed"]
    assert routed.delta is not None and routed.delta_low is not None
    assert f"{100 * routed.delta:+.1f}" in text and f"[{100 * routed.delta_low:+.1f}, " in text
    assert "GRPO on the target itself reaches" in text and "whether or not it loses" in text


def test_every_candidate_has_its_reason_and_its_evidence(complete: ReportData) -> None:
    page = render(complete)
    text = words(page)
    for row in complete.selected:
        assert row.reason in text
    shown = sum(len(one.label.evidence) for one in complete.samples)
    assert page.count('class="turn shows') == shown > len(complete.samples)
    assert "more characters" in text  # nothing is cut silently


@pytest.mark.parametrize("keep", ["diagnosis", "nothing", "not selected"])
def test_an_unfinished_store_says_what_to_run(diagnosed: ReportData, keep: str) -> None:
    data = {
        "diagnosis": diagnosed,
        "nothing": ReportData(),
        "not selected": replace(diagnosed, selected=(), samples=()),
    }[keep]
    page = render(data)
    Checker(page)
    assert "Evaluation on test tasks: not run yet: run <code>trace sync</code>." in page
    assert "made elsewhere" in render(replace(data, elsewhere=True))
    assert ("Contrast of capabilities: not run yet" in page) == (keep == "nothing")
    text = words(page)
    if keep == "diagnosis":
        assert f"{len(data.kept)} of 5 candidate capabilities separate" in text
    if keep == "nothing":
        assert "Nothing has been run yet" in text
    if keep == "not selected":
        assert "not decided yet" in text and "not diagnosed yet" in text


def test_no_gain_is_not_sold_as_one(complete: ReportData) -> None:
    summary = [
        row.model_copy(update={"delta": 0.01, "delta_low": -0.02}) if row.arm == "routed" else row
        for row in complete.summary
    ]
    assert "No gain is shown: taught 3 capabilities" in words(render(replace(complete, summary=summary)))


def test_thresholds_in_force_are_shown(diagnosed: ReportData) -> None:
    page = render(replace(diagnosed, thresholds=Selection(min_gap=0.33)))
    assert "Gap of at least 0.33" in words(page)


def test_equal_data_give_an_equal_page(complete: ReportData) -> None:
    assert render(complete) == render(complete)


def test_undefined_rates_are_shown_as_such(diagnosed: ReportData) -> None:
    empty = {
        name: None
        for name in diagnosed.contrasts[0].model_dump()
        if name.startswith(("er_", "gap", "cov", "p_", "q_"))
    }
    contrasts = [row.model_copy(update=empty) for row in diagnosed.contrasts]
    page = render(replace(diagnosed, contrasts=contrasts))
    Checker(page)
    assert "None" not in words(page).replace("None of the candidates", "")


HOSTILE = "\"'></script></style><img src=x onerror=alert(1)><b>&amp;"


def test_hostile_messages_ids_and_names_stay_text(diagnosed: ReportData) -> None:
    call = ToolCall(id=HOSTILE, name=HOSTILE, arguments={HOSTILE: [HOSTILE], "plain": {HOSTILE: 1}})
    messages = tuple(
        MessageRow(
            trajectory_id=HOSTILE,
            index=index,
            role=role,
            content=content,
            tool_calls=(call,) if role == "assistant" else (),
            tool_name=HOSTILE,
            is_error=True,
        )
        for index, (role, content) in enumerate(
            (("user", HOSTILE), ("assistant", HOSTILE), ("tool", json.dumps({HOSTILE: HOSTILE})))
        )
    )
    old = diagnosed.selected[0].capability_id
    triage = diagnosed.triage[0].model_copy(
        update={"trajectory_id": HOSTILE, "task_id": HOSTILE, "outcome": "failed", "fault": "environment"}
    )
    triage = triage.model_copy(update={"rule": HOSTILE, "detail": HOSTILE})
    label = diagnosed.samples[0].label.model_copy(
        update={"trajectory_id": HOSTILE, "capability_id": HOSTILE, "rationale": HOSTILE, "labeller": HOSTILE}
    )
    change = {"capability_id": HOSTILE, "name": HOSTILE, "description": HOSTILE, "reason": HOSTILE}
    page = render(
        replace(
            diagnosed,
            triage=[*diagnosed.triage, triage],
            capabilities=[row.model_copy(update=change) for row in diagnosed.capabilities[:1]],
            contrasts=[
                row.model_copy(update=change) for row in diagnosed.contrasts if row.capability_id == old
            ],
            selected=[row.model_copy(update=change) for row in diagnosed.selected[:1]],
            samples=[Sample(label, triage, messages)],
            also_lacking={HOSTILE: (HOSTILE,)},
        )
    )
    checker = Checker(page)
    assert not checker.tags & {"script", "img"} and page.count("</style>") == 1
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert all(re.fullmatch(r"[\w-]+", one) for one in checker.ids)
    assert words(page).count("<img src=x onerror=alert(1)>") > 10


def test_each_sample_has_its_labelled_messages_and_links_to_them(complete: ReportData) -> None:
    page = render(complete)
    checker = Checker(page)
    candidates = {row.capability_id for row in complete.selected}
    for sample in complete.samples:
        assert sample.label.capability_id in candidates
        assert sample.label.trajectory_id in page
    labelled = sum(len(sample.label.evidence) for sample in complete.samples)
    ids = [one for one in checker.ids if re.search(r"-m\d+$", one)]
    assert labelled == len(ids) > 0
    assert set(ids) <= {link.removeprefix("#") for link in checker.links}
    assert "r390" in page and "trace sql lacking -p capability=cancel" in page


def test_candidates_without_transcripts_still_say_why_and_how_to_find_them(diagnosed: ReportData) -> None:
    page = render(replace(diagnosed, samples=()))
    checker = Checker(page)
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert page.count("The page has no room for its transcripts") == len(diagnosed.selected)


def test_targets_without_a_candidate_are_not_passed_over(diagnosed: ReportData) -> None:
    other = [
        row.model_copy(update={"trajectory_id": f"o{n}", "target": "other"})
        for n, row in enumerate(diagnosed.triage[:60])
    ]
    failures = sum(row.outcome == "failed" and row.fault == "agent" for row in other)
    text = words(render(replace(diagnosed, triage=[*diagnosed.triage, *other])))
    assert f"other: no candidate was proposed for its {failures} failures of the agent." in text


def test_trust_shows_intervals_and_n(complete: ReportData) -> None:
    text = words(render(complete))
    assert "0.71 [0.60, 0.80] 390 trajectories 2 labellers" in text
    assert "98.0 % [90.0, 100.0] 86.0 % [74.0, 93.0] 2.5 % at most 13.0 %" in text
    assert "5.0 % [1.0, 17.0] of 40 shuffles" in text
    assert "0.83 [0.73, 0.93] 240 successes 120 failures, 200 tasks all trajectories leaks" in text
    assert "cannot be told" in text and "for comparison" in text
    failed = [row for row in complete.triage if row.outcome != "passed"]
    agent = sum(row.fault == "agent" for row in failed)
    low, high = wilson(agent, len(failed))
    share = f"{100 * agent / len(failed):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
    assert f"agent {agent} of {len(failed)} {share}" in text


def test_one_labeller_and_no_resamples_are_said(diagnosed: ReportData) -> None:
    text = words(render(diagnosed))
    assert "no agreement to measure" in text and "trace sync --select stability" in text


def test_headline_claims_the_failures_that_are_covered(diagnosed: ReportData) -> None:
    n_failed = max(row.n_failed for row in diagnosed.contrasts)
    covered = sum(round((row.marginal_coverage or 0.0) * n_failed) for row in diagnosed.kept)
    assert 0 < covered < n_failed
    assert f"{covered} of {n_failed} failures lack one of them" in words(render(diagnosed))
    none = [row.model_copy(update={"kept": False}) for row in diagnosed.selected]
    assert "None of 5 candidate capabilities is shown to separate" in words(
        render(replace(diagnosed, selected=none))
    )


def test_money_of_imported_runs_is_not_called_ours(complete: ReportData) -> None:
    first = complete.ledger[0].model_copy(update={"kind": "tokens", "cost_usd": 12.5})
    page = render(replace(complete, ledger=[*complete.ledger, first], imported_usd=12.0))
    assert "money: $0.500, imported runs $12.00" in page
    assert "$12.00 of it is what imported files say" in page


def test_a_diagnosis_that_found_nothing_is_not_called_unfinished(diagnosed: ReportData) -> None:
    empty = ReportData(triage=diagnosed.triage, nothing_found=True)
    text = words(render(empty))
    failed = sum(row.outcome == "failed" and row.fault == "agent" for row in diagnosed.triage)
    assert f"No candidate capability was found in {failed} failures of the agent" in text
    assert "Contrast of capabilities: not run yet" not in text and "Labels with evidence" not in text
    shown = Console(record=True, width=100, file=io.StringIO())
    print_diagnosis(empty, shown)
    said = shown.export_text()
    assert "No candidate capability was found" in said and "not run yet" not in said
    assert "discovery.min_support" in said and "discovery.min_support" in text
    assert "Nothing was proposed that enough trajectories lack" in said
    finding = ProposedFinding(
        target="t",
        capability_id="c",
        name="Look up the loan",
        detector="d",
        picked=False,
        norm=0.7,
        n_lacking=12,
        n_present=9,
        labels="",
        trajectories_hash="",
    )
    why = "Look up the loan: lacking in 12 of 21 relevant trajectories; fell, as a norm must be shown by 70 %"
    assert why in words(render(replace(empty, findings=[finding])))
    assert why not in words(render(replace(empty, findings=[finding.model_copy(update={"picked": True})])))


@pytest.mark.parametrize(
    ("rates", "relevant", "warned"),
    [
        ((0.9, 0.0), (40, 10), True),
        ((0.9, 0.0), (40, 9), False),
        ((1.0, 0.0), (42, 7), True),  # the published labels of the reference
        ((1.0, 0.0), (2, 7), False),
        ((1.0, 0.1), (42, 40), False),
    ],
)
def test_an_empty_contrast_is_warned_of_by_the_rule_that_stops_the_selection(
    diagnosed: ReportData, rates: tuple[float, float], relevant: tuple[int, int], warned: bool
) -> None:
    row = diagnosed.contrasts[0].model_copy(
        update={
            "er_failed": rates[0],
            "er_passed": rates[1],
            "n_failed_relevant": relevant[0],
            "n_passed_relevant": relevant[1],
        }
    )
    assert bool(deficits_view(replace(diagnosed, contrasts=[row]))["warnings"]) == warned
    assert bool(empty_contrast([row])) == warned


def test_pilots_and_dead_groups_are_shown_beside_each_other() -> None:
    from trace_assets.records import Adapter, Capability, Learnability, Pilot
    from trace_assets.report.data import ReportData

    capability = Capability(
        capability_id="c", target="t", name="Look first", description="It looks.", analyst="test"
    )
    pilot = Pilot(
        capability_id="c", environment_id="e", outcome="stopped", goes_on=False, reason="it <falls>",
        reward_gain=0.4, reward_gain_low=0.3, reward_gain_high=0.5, n_seeds=64, target_gain=-0.2,
        target_gain_low=-0.3, target_gain_high=-0.1, n_tasks=32,
    )  # fmt: skip
    learnt = Learnability(
        capability_id="c", environment_id="e", adapter_id="a", n_seeds=64, n_rollouts=512, fit="f",
        alpha=1.0, beta=1.0, pass_rate=0.5, icc=0.3, icc_low=0.2, icc_high=0.4, group_size=8, all_pass=0.1,
        all_fail=0.2, plug_in=0.01, dead_predicted=0.347, dead_low=0.245, dead_high=0.459, dead_seen=0.375,
        dead_seen_low=0.267, dead_seen_high=0.497, n_groups=64, n_iterations=4, error=0.028,
        signal_group_size=8, sandbox_share=0.064, sandbox_cpu_share=0.04,
    )  # fmt: skip
    adapter = Adapter(
        adapter_id="a", name="c", kind="capability", capability_id="c", environment_id="e", base_id="b",
        path="p", iterations=1, best_iteration=1, rollouts=8, validation_before=0.1,
        validation_before_low=0.0, validation_before_high=0.2, validation_after=0.9,
        validation_after_low=0.8, validation_after_high=1.0, validation_n=64, rejected="it was rejected",
    )  # fmt: skip
    page = render(
        ReportData(capabilities=[capability], pilots=[pilot], learnability=[learnt], adapters=[adapter])
    )
    for words in (
        "stopped",
        "it &lt;falls&gt;",
        "-20.0 [-30.0, -10.0]",
        "34.7 %",
        "37.5 %",
        "64 groups",
        "6.4 %",
    ):
        assert words in page, words
    assert page.count("Look first (trained on a rejected environment)") >= 2


def test_a_page_has_a_policy_and_hides_nothing(complete: ReportData) -> None:
    capabilities = [replace_name(one) for one in complete.capabilities]
    page = render(replace(complete, capabilities=capabilities))
    assert STEERING[:3] not in page and "\\x1b[2J" in page
    assert not STEERS.search(page) and "<script" not in page
    assert page.index("Content-Security-Policy") < page.index("<style")
    assert "default-src 'none'" in page and "script-src" not in page


def replace_name(one: Capability) -> Capability:
    return one.model_copy(update={"name": STEERING, "description": STEERING})


def test_a_section_without_content_is_told_once_and_not_shown(diagnosed: ReportData) -> None:
    page = render(diagnosed)
    checker = Checker(page)
    shown = [
        one for one in checker.ids if one in ("result", "deficits", "teaching", "audit", "routing", "cost")
    ]
    assert "deficits" in shown and not {"result", "routing", "teaching"} & set(shown)
    assert {"#result", "#routing"}.isdisjoint(checker.links)
    missing = words(page.partition('<section id="missing">')[2].partition("</section>")[0])
    assert missing.count("Routing: not run yet") == 1 and "Evaluation on test tasks" in missing


def test_evidence_is_folded_and_cells_know_their_column(complete: ReportData) -> None:
    page = render(complete)
    evidence = page.partition('<section id="evidence">')[2].partition("</section>")[0]
    assert "<details>" in evidence and "<details open" not in evidence
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        cells = re.findall(r"<td([^>]*)>", table)
        assert cells and all("data-label=" in one for one in cells)
        names = re.findall(r"<th[^>]*>(.*?)</th>", table)
        first = re.search(r"<tbody.*?<tr.*?</tr>", table, re.DOTALL)
        assert first is not None
        assert len(re.findall(r"<td", first[0])) == len(names)


def test_a_capped_rival_is_not_said_to_have_had_as_many_rollouts(complete: ReportData) -> None:
    assert "Comparison at equal rollouts" in words(render(complete))
    adapters = [
        one.model_copy(update={"rollouts": 1408}) if one.kind == "mixed" else one for one in complete.adapters
    ]
    total = sum(one.rollouts for one in adapters if one.kind == "capability")
    page = words(render(replace(complete, adapters=adapters)))
    assert f"unequal rollouts, 1,408 beside {total:,} of all adapters together" in page
    assert "at equal rollouts" not in page


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ("joint", "Taught 3 capabilities in one adapter for all (`joint`), the agent passes 91.0 % "),
        ("sum", "Taught 3 capabilities and added all of them up, the agent passes 91.0 % "),
        ("base", "No gain is shown: validation released the base model; taught 3 capabilities and routed, "),
        ("together", "Taught 3 capabilities and routed to the right one, "),  # not played on test tasks
    ],
)
def test_the_headline_is_of_what_validation_released(complete: ReportData, arm: str, said: str) -> None:
    played = [row for row in complete.summary if row.arm not in ("joint", "sum", "together")]
    routed = next(row for row in played if row.arm == "routed" and row.skill == "all")
    played += [routed.model_copy(update={"arm": other, "pass_rate": 0.91}) for other in ("joint", "sum")]
    unknown = dict.fromkeys(("pass_rate_low", "pass_rate_high", "behind", "behind_low", "behind_high"))
    counted = {"refused": "", "n_tasks": 40, "n_trials": 80, "pass_rate": 0.9, **unknown}
    released = CompositionChoice.model_validate({"arm": arm, "chosen": True, "runner_up": False, **counted})
    assert headline(replace(complete, summary=played, choices=[released])).startswith(said)
