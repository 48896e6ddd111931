"""An operator of a cluster: a command line, columns parted by blanks, a runbook, alerts instead of calls."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """RUNBOOK -- clusters of Osprey Retail
Clock: it is 2044-06-30 in all exercises. Current time: 2044-06-30 22:10.

[R1] Get the freeze state of a namespace before you apply a manifest to it.
[R2] Manifests must not be applied to a namespace while its freeze is on.
[R3] Never scale a deployment to more than 12 replicas.
[R4] Before draining a node, page the on-call of the team that owns it.
[R5] An incident is closed only when the rollout has been seen to succeed.
[R6] Certificates that expired may not be renewed here; open a ticket with security.
"""

APPS = ("cart", "stock", "login", "rates", "mail", "images", "pricing", "labels")
ALERTS = (
    "ALERT {0}: latency above 2 s",
    "Hi, {0} has been slow since nine, can you look?",
    "[pager] {0} error budget burnt",
)


def _alert(number: int, text: str) -> Say:
    return user(f"{ALERTS[number % 3].format(APPS[number // 2 % 8])}. {text}")


def _columns(*rows: tuple[object, ...]) -> str:
    return "\n".join(
        "".join(str(cell).upper().ljust(14) if not n else str(cell).ljust(14) for cell in row).rstrip()
        for n, row in enumerate(rows)
    )


def _freeze(name: str, state: str) -> Say:
    return call(
        "get_freeze", _columns(("namespace", "freeze", "since"), (name, state, "2044-06-28")), namespace=name
    )


def _apply(number: int, shown: bool) -> list[Say]:
    name, case = f"ns-{APPS[number // 2 % 8]}-{number // 2}", number // 2 % 4
    state = "off" if case == 3 else "on"
    start = [_alert(number, f"Apply fix-{number}.yaml to {name}, please."), _freeze(name, state)]
    if shown and state == "on":
        return [*start, agent(f"The freeze of {name} is on, I must not apply anything.")]
    done = call(
        "apply_manifest",
        f"deployment.apps/{APPS[number // 2 % 8]} configured",
        file=f"fix-{number}.yaml",
        namespace=name,
    )
    return [*start, done, agent("Applied.")]


def _unread(number: int, shown: bool) -> list[Say]:
    name = f"ns-{APPS[number // 2 % 8]}-{40 + number // 2}"
    return [
        _alert(number, f"Please apply patch-{number}.yaml in {name}."),
        *([_freeze(name, "off")] if shown else []),
        call(
            "apply_manifest",
            f"service/{APPS[number // 2 % 8]} configured",
            file=f"patch-{number}.yaml",
            namespace=name,
        ),
        agent("It is applied."),
    ]


def _too_many(number: int, shown: bool) -> list[Say]:
    app, count = APPS[number // 2 % 8], 6 + number % 5 if shown else 14 + number
    return [
        _alert(number, f"Scale {app} up as far as you may."),
        call("kubectl", _columns(("name", "ready", "age"), (app, "3/3", "9d")), args=f"get deployment {app}"),
        call("scale", f"deployment.apps/{app} scaled", deployment=app, replicas=count),
        agent(f"{app} has {count} replicas now."),
    ]


def _drain(number: int, shown: bool) -> list[Say]:
    node = f"node-{310 + number}"
    page = call("page_oncall", "paged", team=f"team-{number // 2}", text=f"{node} will be drained")
    return [
        _alert(number, f"Its node {node} has to be drained."),
        call(
            "kubectl",
            _columns(("name", "status", "team"), (node, "Ready", f"team-{number // 2}")),
            args=f"get node {node}",
        ),
        *([page] if shown else []),
        call("drain_node", f"node/{node} drained", node=node),
        agent("Drained."),
    ]


def _unseen(number: int, shown: bool) -> list[Say]:
    app, incident = APPS[number // 2 % 8], f"INC-{7100 + number}"
    bad = call(
        "kubectl", f'error: deployment "{app}" exceeded its progress deadline', args=f"rollout status {app}"
    )
    good = call("kubectl", f'deployment "{app}" successfully rolled out', args=f"rollout status {app}")
    restart = call("kubectl", f"deployment.apps/{app} restarted", args=f"rollout restart {app}")
    more = [call("kubectl", "rolled back", args=f"rollout undo {app}"), good]
    return [
        _alert(number, f"This is {incident}: restart it and close the incident."),
        restart,
        bad,
        *(more if shown else []),
        call("close_incident", "closed", incident=incident, cause="slow start"),
        agent(f"{incident} is closed."),
    ]


LACKS = LackDomain(
    "kube",
    POLICY,
    (
        Lack("applies during a freeze", ("forbidden_call",), "apply_manifest", _apply),
        Lack("applies without the freeze state", ("missing_call",), "get_freeze", _unread),
        Lack("scales beyond the limit", ("forbidden_call", "wrong_value"), "scale", _too_many),
        Lack("pages nobody", ("missing_call",), "page_oncall", _drain),
        Lack(
            "closes while the rollout fails",
            ("early_end", "unhandled_error", "unverified_result", "forbidden_call"),
            "",
            _unseen,
        ),
    ),
)

TASKS = {
    1: (
        "You are the shift lead. Have hot.yaml applied to ns-cart-1 and INC-8001 closed with the cause disk.",
        [
            want("apply_manifest", file="hot.yaml", namespace="ns-cart-1"),
            want("close_incident", incident="INC-8001", cause="disk"),
        ],
    ),
    2: (
        "You are the shift lead. Have hot.yaml applied to ns-mail-2.",
        [want("apply_manifest", file="hot.yaml", namespace="ns-mail-2")],
    ),
    3: (
        "You are the shift lead. Have the deployment rates scaled to 20.",
        [want("scale", deployment="rates", replicas=20)],
    ),
}
LEAD = (user("Shift lead here."), agent("What is needed?"))
BOTH = user("Apply hot.yaml to ns-cart-1, and close INC-8001 with the cause disk.")
APPLIED = call("apply_manifest", "deployment.apps/cart configured", file="hot.yaml", namespace="ns-cart-1")
CLOSED = call("close_incident", "closed", incident="INC-8001", cause="disk")
FREE = _freeze("ns-cart-1", "off")
OVER = user("Thanks, over and out.")

RUNS = (
    Run(1, "", "passes", (*LEAD, BOTH, FREE, APPLIED, CLOSED, agent("Both done."), OVER)),
    Run(
        2,
        "ground_truth",
        "demands to apply during a freeze",
        (
            *LEAD,
            user("Apply hot.yaml to ns-mail-2."),
            _freeze("ns-mail-2", "on"),
            agent("Its freeze is on, that must not be."),
            OVER,
        ),
    ),
    Run(
        3,
        "ground_truth",
        "demands more than the limit",
        (*LEAD, user("Scale rates to 20."), agent("More than 12 replicas are not allowed."), OVER),
    ),
    Run(
        1,
        "user_simulator",
        "names another namespace",
        (
            *LEAD,
            user("Apply hot.yaml to ns-cart-7, and close INC-8001 with the cause disk."),
            _freeze("ns-cart-7", "off"),
            call("apply_manifest", "deployment.apps/cart configured", file="hot.yaml", namespace="ns-cart-7"),
            CLOSED,
            agent("Both done."),
            OVER,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the incident",
        (
            *LEAD,
            user("Apply hot.yaml to ns-cart-1."),
            FREE,
            APPLIED,
            agent("Done. More?"),
            user("No, over and out."),
        ),
    ),
    Run(
        1,
        "user_simulator",
        "leaves before the agent could act",
        (
            *LEAD,
            BOTH,
            FREE,
            agent("Shall I apply hot.yaml to ns-cart-1 and then close INC-8001?"),
            user("Yes, go ahead. Over and out."),
        ),
    ),
    Run(
        1,
        "environment",
        "the interface of the cluster is gone",
        (
            *LEAD,
            BOTH,
            FREE,
            call(
                "apply_manifest",
                "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout",
                file="hot.yaml",
                namespace="ns-cart-1",
            ),
            call(
                "apply_manifest",
                "Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout",
                file="hot.yaml",
                namespace="ns-cart-1",
            ),
            agent("The cluster does not answer."),
            OVER,
        ),
    ),
    Run(
        1,
        "environment",
        "the store behind it is broken",
        (
            *LEAD,
            BOTH,
            FREE,
            call(
                "apply_manifest",
                "Error from server: etcdserver: leader changed, request lost",
                file="hot.yaml",
                namespace="ns-cart-1",
            ),
            agent("The cluster refuses to store it."),
            OVER,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (*LEAD, BOTH, FREE, agent("", completion_tokens=40)),
        stop="agent_error",
    ),
    Run(
        1,
        "agent",
        "names a file that is not there",
        (
            *LEAD,
            BOTH,
            FREE,
            call(
                "apply_manifest",
                'error: the path "hott.yaml" does not exist',
                file="hott.yaml",
                namespace="ns-cart-1",
            ),
            agent("The file is missing."),
            OVER,
        ),
    ),
    Run(1, "agent", "leaves the incident open", (*LEAD, BOTH, FREE, APPLIED, agent("Applied."), OVER)),
    Run(
        1,
        "agent",
        "closes another incident",
        (
            *LEAD,
            BOTH,
            FREE,
            APPLIED,
            call("close_incident", "closed", incident="INC-8010", cause="disk"),
            agent("Both done."),
            OVER,
        ),
    ),
    Run(
        1,
        "agent",
        "promises and does nothing",
        (*LEAD, BOTH, FREE, agent("I will take care of both right away."), OVER),
    ),
)

FAULTS = Domain("kube", POLICY, TASKS, RUNS)
