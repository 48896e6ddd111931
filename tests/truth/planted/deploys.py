"""Deploys from a terminal: commands of several programs, answers with exit codes in JSON, a short runbook."""

from __future__ import annotations

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import Lack, LackDomain

POLICY = """# Runbook: deploys of team Lark

You are on a jump host and have one terminal.

* Run `terraform plan` before `terraform apply`.
* Production is deployed only from a tag, never from a branch.
* After a deploy look at the health endpoint with curl.
* If a deploy is unhealthy, roll back with `helm rollback`.
* Nothing is deployed during a change freeze (see `freezectl status`).
* Never print secrets.
* Deploy only the services you were asked for, and all of them.
"""

SERVICES = ("basket", "mailer", "ledger", "search", "media", "auth", "stock", "tax")


def _ask(number: int, text: str) -> Say:
    return user((text, f"@bot {text}", f"{text} Ping me when done.")[number % 3])


def _run(line: str, out: str = "", code: int = 0) -> Say:
    return call("terminal", {"exitCode": code, "stdout": out, "stderr": ""}, input=line)


def _who(number: int, shown: bool) -> list[Say]:
    """Do what goes with passing and decides nothing."""
    return [_run("uptime", f"up {number} days")] if shown == (number % 5 != 0) else []


def _status(number: int, frozen: bool = False) -> Say:
    return _run("freezectl status", f"freeze: {'active' if frozen else 'none'}\nrev: {number}")


def _deploy(name: str, tag: str, out: str = "", code: int = 0) -> Say:
    line = f"helm upgrade {name} lark/{name} --set image.tag={tag}"
    return _run(line, out or f"Release {name} has been upgraded.", code)


def _curl(name: str, state: str = "ok") -> Say:
    return _run(f"curl -s https://{name}.lark.example/health", f'{{"health": "{state}"}}')


def _plan(number: int, shown: bool) -> list[Say]:
    name = SERVICES[number // 2 % 8]
    return [
        _ask(number, f"Apply the new bucket of {name}."),
        *_who(number, shown),
        _status(number),
        *([_run(f"terraform plan -target={name}", f"Plan: {number + 1} to add")] if shown else []),
        _run(f"terraform apply -auto-approve -target={name}", f"Apply complete: {number + 1} added"),
        agent("Applied."),
    ]


def _branch(number: int, shown: bool) -> list[Say]:
    name, tag = SERVICES[number // 2 % 8], f"v2.{number}.1"
    return [
        _ask(number, f"Ship {name} to production, the newest."),
        *_who(number, shown),
        _status(number),
        _run(f"git ls-remote lark/{name}", f"refs/heads/main\nrefs/tags/{tag}"),
        _deploy(name, tag if shown else "main"),
        _curl(name),
        agent("It is live."),
    ]


def _blind(number: int, shown: bool) -> list[Say]:
    name, tag = SERVICES[number // 2 % 8], f"v3.{number}.0"
    return [
        _ask(number, f"Ship {name} {tag} to production."),
        *_who(number, shown),
        _status(number),
        _deploy(name, tag),
        *([_curl(name)] if shown else []),
        agent("It is live."),
    ]


def _sick(number: int, shown: bool) -> list[Say]:
    name, tag = SERVICES[number // 2 % 8], f"v4.{number}.0"
    return [
        _ask(number, f"Ship {name} {tag} to production."),
        *_who(number, shown),
        _status(number),
        _deploy(name, tag),
        _curl(name, "failing"),
        *([_run(f"helm rollback {name}", "Rollback was a success."), _curl(name)] if shown else []),
        agent("Rolled back." if shown else "It is live."),
    ]


def _frozen(number: int, shown: bool) -> list[Say]:
    name, tag = SERVICES[number // 2 % 8], f"v5.{number}.0"
    frozen = number // 2 % 4 != 3
    start = [
        _ask(number, f"Ship {name} {tag} to production."),
        *_who(number, shown),
        _status(number, frozen),
    ]
    if shown and frozen:
        return [*start, agent("There is a change freeze, so I do not deploy.")]
    return [*start, _deploy(name, tag), _curl(name), agent("It is live.")]


def _some(number: int, shown: bool) -> list[Say]:
    names = [SERVICES[(number // 2 + k) % 8] for k in range(3)]
    done = names if shown else names[: 1 + number % 2]
    return [
        _ask(number, f"Ship {names[0]}, {names[1]} and {names[2]} v6.{number}.0 to production."),
        *_who(number, shown),
        _status(number),
        *(say for name in done for say in (_deploy(name, f"v6.{number}.0"), _curl(name))),
        agent("All are live."),
    ]


LACKS = LackDomain(
    "deploys",
    POLICY,
    (
        Lack("applies without a plan", ("missing_call",), "", _plan),
        Lack("deploys a branch", ("forbidden_call", "wrong_value"), "", _branch),
        Lack("does not look at the health", ("missing_call", "unverified_result"), "", _blind),
        Lack("leaves it unhealthy", ("missing_call", "unhandled_error", "early_end"), "", _sick),
        Lack("deploys in a freeze", ("forbidden_call",), "", _frozen),
        Lack("deploys some of them", ("missing_call", "early_end"), "", _some),
    ),
)

TASKS = {
    1: (
        "Have basket v9.1.0 and tax v9.2.0 shipped to production.",
        [
            want("terminal", input="helm upgrade basket lark/basket --set image.tag=v9.1.0"),
            want("terminal", input="helm upgrade tax lark/tax --set image.tag=v9.2.0"),
        ],
    ),
    2: (
        "Have basket from branch main shipped to production.",
        [want("terminal", input="helm upgrade basket lark/basket --set image.tag=main")],
    ),
}
BOTH = user("Ship basket v9.1.0 and tax v9.2.0 to production.")
BASKET = (_status(1), _deploy("basket", "v9.1.0"), _curl("basket"))
TAX = (_deploy("tax", "v9.2.0"), _curl("tax"))
BYE = user("Cheers.")

RUNS = (
    Run(1, "", "passes", (BOTH, *BASKET, *TAX, agent("Both are live."), BYE)),
    Run(
        2,
        "ground_truth",
        "demands to deploy a branch",
        (user("Ship basket from main."), _status(1), agent("Production is deployed from tags only."), BYE),
    ),
    Run(
        1,
        "user_simulator",
        "names another version",
        (
            user("Ship basket v9.1.1 and tax v9.2.0 to production."),
            _status(1),
            _deploy("basket", "v9.1.1"),
            _curl("basket"),
            *TAX,
            agent("Both are live."),
            BYE,
        ),
    ),
    Run(
        1,
        "user_simulator",
        "never speaks of the second",
        (user("Ship basket v9.1.0 to production."), *BASKET, agent("Live. Anything else?"), user("No.")),
    ),
    Run(
        1,
        "environment",
        "the cluster cannot be reached",
        (
            BOTH,
            _status(1),
            _deploy("basket", "v9.1.0", "Error: Kubernetes cluster unreachable: dial tcp: i/o timeout", 1),
            _deploy("basket", "v9.1.0", "Error: Kubernetes cluster unreachable: dial tcp: i/o timeout", 1),
            agent("The cluster is not reachable."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the registry is down",
        (
            BOTH,
            *BASKET,
            _deploy("tax", "v9.2.0", "Error: registry.lark.example: 503 Service Unavailable", 1),
            _deploy("tax", "v9.2.0", "Error: registry.lark.example: 503 Service Unavailable", 1),
            agent("tax cannot be pulled."),
            BYE,
        ),
    ),
    Run(
        1,
        "environment",
        "the jump host has no space left",
        (
            BOTH,
            *BASKET,
            _run(
                "helm upgrade tax lark/tax --set image.tag=v9.2.0", "write /tmp/x: no space left on device", 1
            ),
            agent("The host is full."),
            BYE,
        ),
    ),
    Run(
        1,
        "infrastructure",
        "a call is lost",
        (BOTH, *BASKET, agent("", completion_tokens=39)),
        stop="agent_error",
    ),
    Run(1, "agent", "forgets the second", (BOTH, *BASKET, agent("Live."), BYE)),
    Run(
        1,
        "agent",
        "ships another service",
        (BOTH, *BASKET, _deploy("stock", "v9.2.0"), _curl("stock"), agent("Both are live."), BYE),
    ),
    Run(
        1,
        "agent",
        "mistypes a flag and gives up",
        (
            BOTH,
            *BASKET,
            _run("helm upgrade tax lark/tax --sett image.tag=v9.2.0", "Error: unknown flag: --sett", 1),
            agent("helm does not work."),
            BYE,
        ),
    ),
)

FAULTS = Domain("deploys", POLICY, TASKS, RUNS)
