"""The homes of later rounds: each is a study of its own, inside the home of the first.

A round's home holds everything that a home holds, so all that is known of recomputing, resuming and looking
at a study holds for a round. What binds it to the round before is one file: the number of the round, and the
folder of the agent that it begins with, which is named by its content and lies in the round's own home.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.evaluation.choice import why_last
from trace_assets.records import Round, RoundAgent
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.store.files import make_folder, replacing_folder, write_text
from trace_assets.study import ROUND_FILE, Study

FOLDER = "rounds"
"""Below the home: a folder for each later round, named by its number."""
SEALED = frozenset({"evaluation", "mixed_adapter", "report", "rounds"})
"""Assets of the whole study that wait for the last round: the test tasks, the arm that spends as many
rollouts as all rounds together, and what tells of both."""
OF_STUDY = SEALED | {"routing", "composition_choice"}
"""Assets that a later round does not have: its agent is one model, chosen by validation without a router."""
OF_ROUNDS = frozenset({"round_agent", "rounds", "config/rounds"})
"""Assets that a study has only where it plays rounds."""


def agent_of(study: Study) -> RoundAgent | None:
    """Return what one round came to; None where it is not there yet."""
    rows = study.store.read(RoundAgent)
    return rows[0] if rows else None


def round_home(study: Study, number: int) -> Path:
    """Return where a later round lies, whether it is there or not."""
    return study.home.path / FOLDER / str(number)


def played_rounds(study: Study) -> Iterator[tuple[Study, RoundAgent, str]]:
    """Return the rounds that were played, each with what it came to and why none follows it.

    A round counts only where it began with the agent of the one before as that is now; the others are left
    from other settings.

    Args:
        study: The first of them; its settings are those of the whole.
    """
    section, number, now, spent = study.settings.rounds, 1, study, 0
    while (agent := agent_of(now)) is not None:
        spent += agent.training_rollouts
        why = why_last(
            agent.delta if agent.agent_id else None,
            number,
            section.most,
            section.min_gain,
            spent,
            section.rollouts,
        )
        yield now, agent, why
        following = later_round(study, number + 1)
        if why or following is None or following.settings.base_model.path != _place(agent):
            return
        number, now = number + 1, following


def later_round(study: Study, number: int) -> Study | None:
    """Return a round that was begun, with the settings it has now; None where there is none."""
    home = round_home(study, number)
    return Study.of(Home(home), _whole(study)) if (home / ROUND_FILE).is_file() else None


def begin_round(study: Study, number: int, before: Study) -> Study:
    """Lay out the home of the next round, or give the one that is there the agent as it is now.

    Args:
        study: The first round.
        number: The round to begin.
        before: The round before, whose agent is there.

    Raises:
        InputError: The round before has come to no agent.
    """
    agent = agent_of(before)
    if agent is None or not agent.agent_id:
        raise InputError(f"round {number - 1} has come to no agent, so there is no round {number}.")
    home = Home.open(round_home(study, number))
    place = home.path / _place(agent)
    if not place.is_dir():
        make_folder(place.parent)
        with replacing_folder(place) as building:
            shutil.copytree(before.home.path / agent.path, building, dirs_exist_ok=True)
    text = json.dumps({"round": number, "agent": _place(agent)}, indent=1) + "\n"
    file = home.path / ROUND_FILE
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        write_text(file, text)
    return Study.of(home, _whole(study))


def _place(agent: RoundAgent) -> str:
    """Return where a round keeps the agent that it begins with: by content, whatever home it came from."""
    return f"models/agents/{agent.agent_id}"


def _whole(study: Study) -> Settings:
    if study.round > 1:
        raise InputError(
            f"{study.home.path} is round {study.round} of a study: rounds begin from the study's own home."
        )
    return study.settings


def rounds_of(study: Study) -> list[Round]:
    """Return the rounds as the study has noted them down, in order; none where it plays none."""
    if study.settings.rounds.most < 2:
        return []
    return sorted(study.store.read(Round), key=lambda row: row.round)


def later_rollouts(study: Study) -> int:
    """Return the training rollouts of all rounds but the first: their rival spends as many."""
    return sum(row.training_rollouts for row in rounds_of(study) if row.round > 1)
