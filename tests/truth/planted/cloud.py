"""A cloud provider's service desk: tools named after REST methods, nested records, a policy in bullets."""

from __future__ import annotations

from typing import Any

from tests.truth.planted.domain import Domain, Run, Say, agent, call, user, want
from tests.truth.planted.lacks import NAMES, Lack, LackDomain

POLICY = """# Service desk, cloud platform
Today's date: 2036-04-18

## Instances
* Before an instance is resized, the quota of its project has to be read.
* A resize takes effect only once it has been applied (post_apply); do this at the end of every resize.
* Spot instances are never resized.

## Volumes
* A volume may be deleted if it is detached, it is not shared and its retention date has passed. \
All three have to be true.
* Volumes grow, they do not shrink. A volume must not be larger than 4000 GB.

## Accounts
* Locked accounts are to be unlocked right away if the caller knows the backup code.
* The owner of an account cannot be exchanged.
"""


def _record(kind: str, name: str, **status: Any) -> dict[str, Any]:
    """Return an object as the platform's API shows it."""
    return {"kind": kind, "metadata": {"uid": name, "labels": {"tier": "b"}}, "status": status}


def _hello(number: int) -> str:
    return f"{NAMES[number // 2 % 8]} speaking."


def _no_quota(number: int, shown: bool) -> list[Say]:
    name, project = f"i-7a{10 + number}", f"prj-{30 + number}"
    look = call("get_quota", _record("Quota", project, cpusFree=40), project=project)
    return [
        user(f"{_hello(number)} Please make instance {name} an m2.large."),
        call("get_instance", _record("Instance", name, size="m1.small", project=project), instance=name),
        *([look] if shown else []),
        call("patch_instance", {"accepted": True}, instance=name, size="m2.large"),
        call("post_apply", {"accepted": True}, instance=name),
        agent("It is an m2.large now."),
        user("Perfect, goodbye."),
    ]


def _delete_volume(number: int, shown: bool) -> list[Say]:
    name, case = f"vol-{4100 + number}", number // 2 % 4
    status = {
        "attachment": "attached" if case == 0 else "detached",
        "shared": case == 1,
        "retentionUntil": "2036-09-30" if case == 2 else "2036-01-31",
    }
    start = [
        user(f"{_hello(number)} I do not need {name} any more, delete it."),
        call("get_volume", _record("Volume", name, **status), volume=name),
    ]
    if shown and case < 3:
        why = ("it is still attached", "others share it", "it has to be kept until 2036-09-30")[case]
        return [*start, agent(f"I cannot delete it: {why}."), user("OK. Bye.")]
    gone = call("delete_volume", {"accepted": True}, volume=name)
    return [*start, gone, agent("It has been deleted."), user("Thanks, bye.")]


def _never_applied(number: int, shown: bool) -> list[Say]:
    name, project = f"i-9c{10 + number}", f"prj-{60 + number}"
    apply = call("post_apply", {"accepted": True}, instance=name)
    return [
        user(f"{_hello(number)} I need more memory on {name}. The m3.large will do."),
        call("get_instance", _record("Instance", name, size="m1.small", project=project), instance=name),
        call("get_quota", _record("Quota", project, cpusFree=12), project=project),
        call("patch_instance", {"accepted": True}, instance=name, size="m3.large"),
        *([apply] if shown else []),
        agent("Your instance has its memory now."),
        user("Many thanks."),
    ]


def _old_revision(number: int, shown: bool) -> list[Say]:
    name = f"vol-{5200 + number}"
    first = _record("Volume", name, sizeGb=100, revision="rev-11")
    grown = _record("Volume", name, sizeGb=150, revision="rev-12")
    return [
        user(f"{_hello(number)} Let {name} grow to 150 GB, please."),
        call("get_volume", first, volume=name),
        call("patch_volume", grown, volume=name, sizeGb=150, revision="rev-11"),
        agent("It has 150 GB now. Anything else?"),
        user("Oh, make that 200."),
        call(
            "patch_volume",
            {"accepted": shown},
            volume=name,
            sizeGb=200,
            revision="rev-12" if shown else "rev-11",
        ),
        agent("Now it has 200 GB."),
        user("Good, thank you."),
    ]


def _stays_locked(number: int, shown: bool) -> list[Say]:
    name, code = f"acc-{6300 + number}", f"771-{number:02d}"
    start = [
        user(
            f"{_hello(number)} My account {name} is locked. The backup code is 771-{number:02d}, unlock it."
        ),
        call("get_account", _record("Account", name, state="locked", backup=code), account=name),
    ]
    if shown:
        done = call("put_unlock", {"accepted": True}, account=name)
        return [*start, done, agent("You can sign in again."), user("Super, bye.")]
    return [
        *start,
        agent("For reasons of security I am not able to unlock accounts. Please write to our office."),
        user("That is a shame."),
    ]


LACKS = LackDomain(
    "cloud",
    POLICY,
    (
        Lack("resizes without the quota", ("missing_call",), "get_quota", _no_quota),
        Lack("deletes what must be kept", ("forbidden_call",), "delete_volume", _delete_volume),
        Lack("never applies the resize", ("missing_call", "early_end"), "post_apply", _never_applied),
        Lack("writes with an old revision", ("wrong_value",), "revision", _old_revision),
        Lack(
            "refuses to unlock", ("missing_call", "early_end", "wrong_statement"), "put_unlock", _stays_locked
        ),
    ),
)

ACCOUNT = _record("Account", "acc-8801", state="active", owner="usr-51", project="prj-81")
SPOT = _record("Instance", "i-5f02", size="s1.small", purchase="spot", project="prj-81")
PLAIN = _record("Instance", "i-5f03", size="m1.small", purchase="reserved", project="prj-81")
SHARED = _record(
    "Volume", "vol-8101", sizeGb=500, attachment="detached", shared=True, retentionUntil="2036-01-01"
)
FREE = _record(
    "Volume", "vol-8102", sizeGb=500, attachment="detached", shared=False, retentionUntil="2036-01-01"
)
QUOTA = _record("Quota", "prj-81", cpusFree=16)

TASKS = {
    1: (
        "You are Ivo Kern, account acc-8801. Have the instance i-5f02 resized to s1.large.",
        [want("patch_instance", instance="i-5f02", size="s1.large"), want("post_apply", instance="i-5f02")],
    ),
    2: (
        "You are Ivo Kern, account acc-8801. Get rid of the volume vol-8101.",
        [want("delete_volume", volume="vol-8101")],
    ),
    3: (
        "You are Ivo Kern, account acc-8801. You want i-5f03 resized to m2.large and vol-8102 deleted.",
        [
            want("patch_instance", instance="i-5f03", size="m2.large"),
            want("post_apply", instance="i-5f03"),
            want("delete_volume", volume="vol-8102"),
        ],
    ),
    4: (
        "You are Ivo Kern, account acc-8801. You need vol-8102 to have 6000 GB.",
        [want("patch_volume", volume="vol-8102", sizeGb=6000)],
    ),
    5: (
        "You are Ivo Kern, account acc-8801. Let vol-8102 grow to 900 GB.",
        [want("patch_volume", volume="vol-8102", sizeGb=900)],
    ),
    6: (
        "You are Ivo Kern, account acc-8801. Ask for a snapshot of vol-8102.",
        [want("post_snapshot", volume="vol-8102", label="nightly-7")],
    ),
}

HELLO = (
    user("Good morning, Ivo Kern, account acc-8801."),
    call("get_account", ACCOUNT, account="acc-8801"),
    agent("Good morning. What is it about?"),
)
RESIZED = (
    call("get_instance", PLAIN, instance="i-5f03"),
    call("get_quota", QUOTA, project="prj-81"),
    call("patch_instance", {"accepted": True}, instance="i-5f03", size="m2.large"),
    call("post_apply", {"accepted": True}, instance="i-5f03"),
)
LOOKED = call("get_volume", FREE, volume="vol-8102")
DELETED = call("delete_volume", {"accepted": True}, volume="vol-8102")


def _snapshot(label: str, policy: str) -> Run:
    """Return a run of the task whose label no run can know."""
    says = (
        *HELLO,
        user("Could you take a snapshot of vol-8102?"),
        LOOKED,
        call("post_snapshot", {"accepted": True}, volume="vol-8102", label=label),
        agent("The snapshot is being taken."),
        user("Thanks. ###STOP###"),
    )
    return Run(6, "ground_truth", "wants a label that nobody can know; none passes", says, policy=policy)


RUNS = (
    Run(
        1,
        "ground_truth",
        "demands a resize that the policy never allows",
        (
            *HELLO,
            user("Please resize i-5f02 to s1.large."),
            call("get_instance", SPOT, instance="i-5f02"),
            agent("This is a spot instance; those cannot be resized."),
            user("I see. ###STOP###"),
        ),
    ),
    Run(
        2,
        "ground_truth",
        "demands the deletion of what is shared",
        (
            *HELLO,
            user("I want vol-8101 deleted."),
            call("get_volume", SHARED, volume="vol-8101"),
            agent("Other projects share this volume, so it has to stay."),
            user("Oh well. ###STOP###"),
        ),
    ),
    Run(
        4,
        "ground_truth",
        "demands more than the policy's largest size",
        (
            *HELLO,
            user("I need vol-8102 to have 6000 GB."),
            LOOKED,
            agent("A volume can have 4000 GB at most. Should I make it 4000?"),
            user("No, then leave it. ###STOP###"),
        ),
    ),
    _snapshot("vol-8102", "p"),
    _snapshot("daily", "q"),
    _snapshot("ivo", "q"),
    Run(
        3,
        "",
        "passes",
        (
            *HELLO,
            user("Make i-5f03 an m2.large, and delete vol-8102."),
            *RESIZED,
            LOOKED,
            DELETED,
            agent("Both are done. Is there more?"),
            user("No. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "agrees and hangs up before the call",
        (
            *HELLO,
            user("Make i-5f03 an m2.large, and delete vol-8102."),
            *RESIZED,
            LOOKED,
            agent("The resize is done. vol-8102 will be gone for good: do you want me to delete it?"),
            user("Yes, please delete it. ###STOP###"),
        ),
    ),
    Run(
        3,
        "user_simulator",
        "never speaks of the volume",
        (
            *HELLO,
            user("Make i-5f03 an m2.large."),
            *RESIZED,
            agent("The resize is done. What else can I do?"),
            user("That was everything. ###STOP###"),
        ),
    ),
    Run(
        3,
        "infrastructure",
        "its last call is lost",
        (
            *HELLO,
            user("Make i-5f03 an m2.large, and delete vol-8102."),
            *RESIZED,
            agent("", completion_tokens=41),
        ),
        stop="agent_error",
    ),
    Run(
        3,
        "agent",
        "forgets the volume",
        (
            *HELLO,
            user("Make i-5f03 an m2.large, and delete vol-8102."),
            *RESIZED,
            agent("All done. Goodbye!"),
            user("Bye. ###STOP###"),
        ),
    ),
    Run(
        5,
        "environment",
        "the tool reports a growth that it never made",
        (
            *HELLO,
            user("Let vol-8102 grow to 900 GB."),
            LOOKED,
            call("patch_volume", {"accepted": True}, volume="vol-8102", sizeGb=900),
            LOOKED,
            agent("It should have 900 GB soon."),
            user("Thanks. ###STOP###"),
        ),
    ),
    Run(
        5,
        "agent",
        "grows it by another number",
        (
            *HELLO,
            user("Let vol-8102 grow to 900 GB."),
            LOOKED,
            call("patch_volume", {"accepted": True}, volume="vol-8102", sizeGb=1400),
            agent("It has grown."),
            user("Thanks. ###STOP###"),
        ),
    ),
    Run(
        5,
        "user_simulator",
        "asks for another size than it was told to",
        (
            *HELLO,
            user("Let vol-8102 grow to 800 GB."),
            LOOKED,
            call("patch_volume", {"accepted": True}, volume="vol-8102", sizeGb=800),
            agent("It has 800 GB."),
            user("Fine. ###STOP###"),
        ),
    ),
    Run(
        5,
        "",
        "passes",
        (
            *HELLO,
            user("Let vol-8102 grow to 900 GB."),
            LOOKED,
            call("patch_volume", {"accepted": True}, volume="vol-8102", sizeGb=900),
            agent("It has 900 GB."),
            user("Fine. ###STOP###"),
        ),
    ),
)

FAULTS = Domain("cloud", POLICY, TASKS, RUNS)
