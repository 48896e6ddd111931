"""`trace tournament`: arms against each other over worlds, by a plan that is registered first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from trace_assets.cli.options import MOST_SEED, Json, Set
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError

tournament = typer.Typer(
    name="tournament",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Compare arms over several worlds by a plan that is registered first: plan, run, add-arm, report.",
)

Folder = Annotated[Path, typer.Argument(help="Of the tournament: its plan, a home for each world, results.")]
SMALL = {
    "targets.discovery_tasks": 240,
    "targets.validation_tasks": 100,
    "targets.test_tasks": 200,
    "training.iterations": 10,
    "evaluation.trials": 2,
}
"""What `--quick` makes smaller in every world."""


@tournament.command("plan")
def plan(
    folder: Folder,
    worlds: Annotated[
        int, typer.Option(min=1, max=1000, help="Replications: everything anew from other seeds.")
    ] = 6,
    first_seed: Annotated[
        int, typer.Option(min=0, max=MOST_SEED, help="Seeds are counted up from it.")
    ] = 100,
    desk: Annotated[str, typer.Option(help="Which order desk: a, b, c or d (see `trace demo`).")] = "a",
    look: Annotated[
        int | None,
        typer.Option(
            min=2, max=1000, help="After so many worlds, stop if every primary comparison is clear by then."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer tasks and iterations a world.")] = False,
    file: Annotated[
        Path | None, typer.Option(help="A plan.json of your own, in the place of the other options.")
    ] = None,
    amend: Annotated[str, typer.Option(help="Why the registered plan is changed, in words.")] = "",
    settings_of_worlds: Set = None,
    as_json: Json = False,
) -> None:
    """Write the plan, say what it can show, and register it; nothing is played.

    `--set` is written into the plan, for every world: `--set targets.discovery_tasks=48`.
    """
    from pydantic import ValidationError

    from trace_assets.settings.settings import Settings, override_of
    from trace_assets.tournament.page import forecast
    from trace_assets.tournament.plan import Plan, default_plan, write_plan
    from trace_assets.tournament.run import check_settings, worlds_seen

    own = {".".join(keys): value for keys, value in map(override_of, settings_of_worlds or ())}
    today = {"training.warm_start": Settings().training.warm_start}
    if file is not None:
        try:
            made = Plan.model_validate_json(file.read_bytes())
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the file"
            raise InputError(f"{file} is no plan: {where}: {error.errors()[0]['msg']}.") from error
        made = made.model_copy(update={"settings": made.settings | own})
    else:
        settings: dict[str, object] = dict(SMALL) if quick else {}
        if desk != "a":
            settings |= {
                "targets.options.desk": desk,
                "training.single_arms": ["together", "joint", "joining"],
            }
            settings |= {"training.pilot": "warn"}  # one skill alone passes few of these tasks
        if look is not None and look >= worlds:
            raise InputError(f"--look {look} is no look on the way to {worlds} worlds: name fewer.")
        made = default_plan(worlds, first_seed, today | settings | own, look)
    check_settings(made)
    newest = write_plan(folder, made, why=amend, worlds_seen=worlds_seen(folder, made))[-1]
    if as_json:
        print(json.dumps({"registered": newest.model_dump(), "plan": made.model_dump(mode="json")}, indent=2))
        return
    console = make_console()
    console.print(
        f"{folder}: {len(made.worlds)} worlds, registered as {newest.fingerprint[:16]}", soft_wrap=True
    )
    for one in made.primary:
        console.print(f"  primary: {one.name}", soft_wrap=True)
    for words in forecast(made):
        console.print(words, soft_wrap=True)


@tournament.command("run")
def run(
    folder: Folder,
    hours: Annotated[
        float | None, typer.Option(min=0, help="Begin no world that would end after so many hours.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Play the worlds that are not finished; the same command goes on after an interruption."""
    from trace_assets.tournament.run import run as play
    from trace_assets.tournament.score import score

    console = make_console(stderr=as_json)
    done = play(
        folder,
        most_hours=hours,
        is_decided=lambda: score(folder).stopped,
        tell=lambda words: console.print(words, soft_wrap=True),
    )
    if as_json:
        print(json.dumps({"finished": done}))
        return
    console.print(f"{len(done)} worlds finished; `trace tournament report {folder}`", soft_wrap=True)


@tournament.command("add-arm")
def add_arm(
    folder: Folder,
    arm: Annotated[
        str, typer.Argument(help="One of the closed list; `--list` shows it.", show_default=False)
    ] = "",
    why: Annotated[str, typer.Option(help="Why it is added, in words: it stands on the page.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="Only list the arms that there are.")] = False,
    as_json: Json = False,
) -> None:
    """Add an arm to a registered plan, as an amendment, and play it in the worlds that are finished."""
    from trace_assets.tournament.arms import ARMS
    from trace_assets.tournament.run import add_arm as register
    from trace_assets.tournament.run import is_finished, play_arms

    if listed or not arm:
        if as_json:
            rows = [{"arm": one.name, "about": one.about, "needs": one.needs} for one in ARMS.values()]
            print(json.dumps(rows, indent=2))
        else:
            for one in ARMS.values():
                print(f"{one.name}: {one.about} Needs {one.needs}.")
        return
    console = make_console(stderr=as_json)
    plan = register(folder, arm, why)
    played = [
        entry
        for world in plan.worlds
        if is_finished(folder, world.number)
        for entry in play_arms(
            folder,
            plan.model_copy(update={"arms": (arm,)}),
            world,
            lambda words: console.print(words, soft_wrap=True),
        )
    ]
    if as_json:
        print(json.dumps([vars(entry) for entry in played], indent=2))
        return
    left = len(plan.worlds) - len(played)
    later = f"; {left} worlds are still to be played, and the arm with them" if left else ""
    console.print(f"{arm}: {len(played)} worlds{later}; `trace tournament report {folder}`", soft_wrap=True)


@tournament.command("status")
def status(folder: Folder, as_json: Json = False) -> None:
    """List the worlds and what has become of them; no figure of a test task is shown."""
    from trace_assets.tournament.plan import read_plan
    from trace_assets.tournament.run import is_finished, world_home

    rows = [
        {
            "world": world.number,
            "seeds": [world.base_seed, world.target_seed, world.training_seed],
            "state": "finished"
            if is_finished(folder, world.number)
            else "begun"
            if world_home(folder, world.number).is_dir()
            else "waiting",
        }
        for world in read_plan(folder).worlds
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"world {row['world']}: {row['state']}")


@tournament.command("report")
def report(
    folder: Folder,
    page: Annotated[Path | None, typer.Option(help="Write the page there, too.")] = None,
    budget: Annotated[
        list[Path] | None,
        typer.Option(help="Another study of the same worlds at another budget: then both stand as a curve."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score what is finished: verdicts first, then arms, comparisons, predictions and spending."""
    from trace_assets.store.files import write_text
    from trace_assets.tournament.budgets import curves
    from trace_assets.tournament.page import over_budgets, sentence, standings
    from trace_assets.tournament.page import page as write_page
    from trace_assets.tournament.score import score

    scored = score(folder)
    text = write_page(scored)
    found = curves([folder, *budget]) if budget else []
    if found:
        text += "\n" + over_budgets(found)
    if page is not None:
        write_text(page, text)
    if as_json:
        due = scored.is_due
        print(
            json.dumps(
                {
                    "plan": scored.plan.fingerprint,
                    "worlds": len(scored.plan.worlds),
                    "finished": list(scored.finished),
                    "verdicts": [
                        {
                            "comparison": one.comparison.name,
                            "verdict": one.verdict,
                            "mean": one.found.mean,
                            "low": one.found.low,
                            "high": one.found.high,
                            "worlds": one.found.n,
                            "says": sentence(one, scored.plan),
                        }
                        for one in (scored.primary if due else ())
                    ],
                    "claims": [
                        {
                            "claim": one.claim.says,
                            "stands": one.standing,
                            "comparison": one.shown.comparison.name if one.shown else None,
                            "because": one.because,
                        }
                        for one in (standings(scored) if due else ())
                    ],
                    "spending": scored.spending.drop("place").to_dicts(),
                    "budgets": [
                        {
                            "comparison": one.comparison.name,
                            "worlds": one.worlds,
                            "rollouts": [point.rollouts for point in one.budgets],
                            "differences": [vars(point.difference) for point in one.budgets],
                            "area": vars(one.area),
                            "gain": vars(one.gain),
                        }
                        for one in found
                    ],
                },
                indent=2,
            )
        )
        return
    print(text, end="")
