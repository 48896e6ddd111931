"""From trajectories to an audited environment for one capability: plain Python, no Dagster, no model.

    python docs/examples/one_capability.py

Every step is one call of the package on records. A library lends books; its agent renews loans, and in
some conversations it does so without looking whether somebody else has reserved the book.
"""

from __future__ import annotations

import json
import random
from typing import Any

from trace_assets.diagnosis.contrast import considered_tests, contrast
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.selection import select
from trace_assets.diagnosis.triage import triage
from trace_assets.environments.audit import static
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.audit.check import Finding, Subject
from trace_assets.environments.contract.description import contract_of
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec, Message, ToolCall, ToolSpec, Trajectory
from trace_assets.sandbox import SandboxUnavailable, open_pool
from trace_assets.settings import ContrastSection, Discovery, Selection, Synthesis

TEXT = {"type": "string"}
LOAN = {"type": "object", "properties": {"loan_id": TEXT}, "required": ["loan_id"]}
TOOLS = (
    ToolSpec(name="get_loan", description="Show a loan.", parameters=LOAN, mutates=False),
    ToolSpec(name="renew_loan", description="Renew a loan.", parameters=LOAN, mutates=True),
    ToolSpec(name="return_loan", description="Take a book back.", parameters=LOAN, mutates=True),
    ToolSpec(name="ask_librarian", description="Leave a loan to a person.", parameters=LOAN, mutates=True),
)
POLICY = "You serve a library. A loan whose book is reserved must not be renewed: ask a librarian."
GREETINGS = ("", "Hello! ", "Good morning. ", "Hi there, it is me again. ")
REQUESTS = {
    "renew_loan": ("Please renew my loan {0}.", "Could you renew loan {0}?", "I need {0} for longer."),
    "return_loan": ("I bring back loan {0}.", "Please take back loan {0}.", "Here is {0}, I have read it."),
    "": ("Where is the book of loan {0}?", "Which shelf does loan {0} belong to?", "Where does {0} go?"),
}


def conversation(number: int, rng: random.Random) -> Trajectory:
    """Play one conversation: a careless agent renews without looking, which is wrong for reserved books."""
    loan = {
        "loan_id": f"L{rng.randrange(1000, 9999)}",
        "status": rng.choice(["free", "free", "reserved"]),
        "shelf": rng.choice(["north", "south", "attic"]),
    }
    wish = rng.choice(["renew_loan", "renew_loan", "return_loan", ""])
    careless = wish == "renew_loan" and rng.random() < 0.25
    asked = rng.choice(GREETINGS) + rng.choice(REQUESTS[wish]).format(loan["loan_id"])
    messages = [Message(role="user", content=asked)]

    def call(name: str, answer: dict[str, str]) -> None:
        one = ToolCall(id=f"c{len(messages)}", name=name, arguments={"loan_id": loan["loan_id"]})
        messages.append(Message(role="assistant", tool_calls=(one,)))
        content = json.dumps(answer)
        messages.append(Message(role="tool", content=content, tool_call_id=one.id, tool_name=name))

    if not careless:
        call("get_loan", loan)
    if wish == "return_loan":
        call(wish, loan | {"status": "returned"})
    elif wish and (careless or loan["status"] == "free"):
        call(wish, loan | {"status": "renewed"})
    elif wish:
        call("ask_librarian", loan | {"status": "with a librarian"})
    answer = "That is settled." if wish else f"It is on the {loan['shelf']} shelf."
    messages.append(Message(role="assistant", content=answer))
    return Trajectory(
        trajectory_id=f"run-{number}",
        task_id=f"library/{number}",
        target="library",
        task_batch="example",
        policy="a made-up agent",
        success=not (careless and loan["status"] == "reserved"),
        stop="completed",
        messages=tuple(messages),
        n_messages=len(messages),
    )


def static_checks(subject: Subject) -> dict[str, Finding]:
    """Run the checks that only read an environment's text: what is left where there is no sandbox."""
    found: dict[str, Finding] = {}
    for check in static.STATIC_CHECKS:
        if all(found[needed].status == "pass" for needed in check.needs):
            found[check.check_id] = check.run(subject)
        else:
            found[check.check_id] = Finding("skip", "an earlier check failed")
    return found


def show(title: str, **figures: Any) -> None:
    """Print one step with its figures."""
    print(f"{title:14}" + "  ".join(f"{name}: {value}" for name, value in figures.items()))


def main(n: int = 500, seed: int = 0) -> dict[str, str]:
    """Go the whole way and return what was found, by name.

    Args:
        n: Trajectories to make up.
        seed: They are the same for the same seed.
    """
    rng = random.Random(seed)
    trajectories = [conversation(number, rng) for number in range(n)]
    outcomes = triage(trajectories)  # to whom each failure is put down
    failures = sum(row.outcome != "passed" for row in outcomes)
    show("trajectories", n=n, failed=failures)

    analyst = DetectorAnalyst(Discovery(), tools=TOOLS)
    candidates = analyst.discover(trajectories)
    labels = analyst.label([one.blind() for one in trajectories], candidates)  # without outcomes
    section = ContrastSection(resamples=400, permutations=400)
    rows = contrast(labels, outcomes, section, "library", considered=considered_tests(candidates))
    decided = select(rows, candidates, labels, outcomes, Selection())
    by_id = {row.capability_id: row for row in rows}
    for one in decided:
        row = by_id[one.capability_id]
        gap = "–" if row.gap is None else f"{row.gap:.2f} [{row.gap_low:.2f}, {row.gap_high:.2f}]"
        show("kept" if one.kept else "rejected", name=one.name, gap=gap, why=one.reason)

    best = next(one for one in decided if one.kept)
    capability = next(one for one in candidates if one.capability_id == best.capability_id)
    spec = CapabilitySpec(**capability.part(CapabilitySpec))
    contract = contract_of("library", TOOLS, POLICY, [one for one in trajectories if one.success])
    environment = write_environment(spec, contract)  # text of a Python module; nothing of it runs here
    show("environment", written_by=environment.writer, lines=environment.source.count("\n"))

    try:
        with open_pool() as pool:  # Docker where a daemon answers, else bubblewrap
            checks = audit(environment, pool, contract, Synthesis())
            accepted, reasons = verdict_of(checks)
            passed = sum(check.status == "pass" for check in checks)
            show("audit", sandbox=pool.isolation_level, passed=passed, of=len(checks), accepted=accepted)
            verdict = "accepted" if accepted else f"rejected: {'; '.join(reasons)}"
    except SandboxUnavailable as missing:
        subject = Subject(environment, pool=None, section=Synthesis(), contract=contract)  # type: ignore[arg-type]
        found = static_checks(subject)
        show("static checks", **{name: one.status for name, one in found.items()})
        verdict = f"not audited: {missing}"
    print(verdict)
    return {"capability": best.name, "writer": environment.writer, "verdict": verdict}


if __name__ == "__main__":
    main()
