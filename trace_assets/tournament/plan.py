"""What is compared, in which worlds, by which rule: written down and hashed before a test task is opened."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from trace_assets.errors import InputError
from trace_assets.store.files import make_folder, write_text
from trace_assets.tournament.arms import arm_named
from trace_assets.tournament.results import RELEASED

PLAN, REGISTER = "plan.json", "register.json"
PRIMARY = 3
"""Primary comparisons at the most: more of them, and none can be shown with few worlds."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class World(_Part):
    """One replication: everything is made anew from its seeds."""

    number: int = Field(ge=1)
    base_seed: int
    """Of the base model's weights and demonstrations."""
    target_seed: int
    """Draws the tasks."""
    training_seed: int
    """Of training, sampling and evaluation."""

    def overrides(self) -> dict[str, int]:
        """Return the settings that make it."""
        return {
            "base_model.seed": self.base_seed,
            "targets.seed": self.target_seed,
            **dict.fromkeys(
                ("training.seed", "rollouts.seed", "routing.seed", "evaluation.seed"), self.training_seed
            ),
        }


class Comparison(_Part):
    """One arm against another, on the same tasks and trials of each world."""

    arm: str
    rival: str

    @property
    def name(self) -> str:
        """Both, as tables have it."""
        return f"{self.arm} - {self.rival}"


class Prediction(_Part):
    """What was said of a comparison before it was seen."""

    comparison: str
    says: Literal["better", "worse", "tied"]
    because: str


class Plan(_Part):
    """A tournament. Its hash is what is registered."""

    settings: dict[str, Any]
    """Settings of every world beside its seeds, as `section.key`."""
    worlds: tuple[World, ...] = Field(min_length=1)
    primary: tuple[Comparison, ...] = Field(min_length=1, max_length=PRIMARY)
    """What the study is for; Holm over them."""
    secondary: tuple[Comparison, ...] = ()
    """What is looked at beside it, without a verdict."""
    predictions: tuple[Prediction, ...] = ()
    arms: tuple[str, ...] = ()
    """Arms beside those of the evaluation, each played in a folder of its own; see `tournament.arms`."""
    look: int | None = Field(None, ge=2)
    """Worlds after which the primary comparisons are looked at once before the end, by O'Brien and Fleming's
    level: where all of them show a difference by then, no further world is played. None looks at the end."""
    margin: float = Field(0.02, gt=0, lt=1)
    """Differences within it are a tie."""
    alpha: float = Field(0.05, gt=0, lt=0.5)
    """Level of the verdicts, after Holm."""
    sd: float = Field(0.023, gt=0)
    """Expected spread between worlds, for the forecast of power alone."""

    @field_validator("worlds")
    @classmethod
    def _numbered(cls, worlds: tuple[World, ...]) -> tuple[World, ...]:
        # An amendment may leave out worlds that were never finished: the others keep their numbers.
        numbers = [one.number for one in worlds]
        if numbers != sorted(set(numbers)):
            raise ValueError("worlds are numbered in their order, each number once")
        if len({tuple(one.overrides().items()) for one in worlds}) < len(worlds):
            raise ValueError("two worlds have the same seeds, and would count as two")
        return worlds

    @field_validator("arms")
    @classmethod
    def _known(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        for name in arms:
            arm_named(name)
        if len(set(arms)) < len(arms):
            raise ValueError("an arm is named twice")
        return arms

    @model_validator(mode="after")
    def _look_is_on_the_way(self) -> Plan:
        if self.look is not None and self.look >= len(self.worlds):
            raise ValueError(f"a look after {self.look} of {len(self.worlds)} worlds is not on the way")
        if self.look is not None and self.worlds[-1].number != len(self.worlds):
            raise ValueError("a look takes the first worlds, so none of them may be left out")
        return self

    @model_validator(mode="after")
    def _predictions_are_of_comparisons(self) -> Plan:
        known = {one.name for one in (*self.primary, *self.looked_at)}
        for one in self.predictions:
            if one.comparison not in known:
                raise ValueError(f"a prediction is of '{one.comparison}', which is not compared")
        return self

    @property
    def looked_at(self) -> tuple[Comparison, ...]:
        """What is looked at beside the primary comparisons: every further arm against ours, too."""
        ours = self.primary[0].arm
        known = {frozenset((one.arm, one.rival)) for one in (*self.primary, *self.secondary)}
        more = (Comparison(arm=name, rival=ours) for name in self.arms if {name, ours} not in known)
        return (*self.secondary, *more)

    def written(self) -> dict[str, Any]:
        """Return it as it is written: without what it leaves unsaid, so that a plan of before is the same."""
        said = self.model_dump(mode="json")
        unsaid = {name for name, value in (("arms", self.arms), ("look", self.look)) if not value}
        return {name: value for name, value in said.items() if name not in unsaid}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its canonical JSON."""
        text = json.dumps(self.written(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def loop_fingerprint(self) -> str:
        """The fingerprint without further arms: what the loop of a world is played for."""
        return self.model_copy(update={"arms": ()}).fingerprint


class Registered(_Part):
    """When a plan was registered."""

    fingerprint: str
    at: str
    """ISO 8601 in UTC."""
    why: str = ""
    """The reason of an amendment; empty for the first."""
    worlds_seen: int = 0
    """Worlds whose test tasks had been opened by then."""


def write_plan(folder: Path, plan: Plan, *, why: str = "", worlds_seen: int = 0) -> list[Registered]:
    """Register a plan, or an amendment of it.

    Args:
        folder: Of the tournament; made where it is not there.
        plan: What is to hold from now on.
        why: The reason for the change, where another plan is registered already.
        worlds_seen: Worlds whose test tasks have been opened.

    Returns:
        Everything that was ever registered, the newest last.

    Raises:
        InputError: Another plan is registered and no reason is given.
    """
    make_folder(folder)
    before = registered(folder) if (folder / REGISTER).is_file() else []
    if before and before[-1].fingerprint == plan.fingerprint:
        return before
    if before and len(why.split()) < 2:
        raise InputError(
            f"{folder} has another plan registered ({before[-1].fingerprint[:12]}, {before[-1].at}); "
            "--amend 'the reason in words' changes it, and everything scored says so."
        )
    now = Registered(
        fingerprint=plan.fingerprint,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        why=why if before else "",
        worlds_seen=worlds_seen,
    )
    rows = [*before, now]
    _write(folder / PLAN, plan.written())
    _write(folder / REGISTER, [row.model_dump(mode="json") for row in rows])
    return rows


def read_plan(folder: Path) -> Plan:
    """Return the plan in force.

    Raises:
        InputError: There is none, or it is not the one that was registered.
    """
    try:
        plan = Plan.model_validate_json((folder / PLAN).read_bytes())
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no tournament; `trace tournament plan {folder}` makes one."
        ) from None
    except ValidationError as error:
        raise InputError(f"{folder / PLAN} is not a plan: {error.errors()[0]['msg']}.") from error
    if registered(folder)[-1].fingerprint != plan.fingerprint:
        raise InputError(
            f"{folder / PLAN} is not the plan that was registered: put it back, or register the change with "
            "`trace tournament plan --amend 'the reason in words'`."
        )
    return plan


def registered(folder: Path) -> list[Registered]:
    """Return what was registered, the newest last.

    Raises:
        InputError: The register is missing or is not one.
    """
    try:
        rows = json.loads((folder / REGISTER).read_bytes())
        return [Registered.model_validate(row) for row in rows]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{folder / REGISTER} cannot be read: {error}.") from error


def _write(file: Path, value: Any) -> None:
    write_text(file, json.dumps(value, indent=1) + "\n")


def default_plan(worlds: int, first_seed: int, settings: dict[str, Any], look: int | None = None) -> Plan:
    """Return the plan that most studies begin with: routed against its rivals at equal training rollouts.

    Args:
        worlds: How many.
        first_seed: Seeds are counted up from it, so that two studies can share no world.
        settings: Of every world, as `section.key`.
        look: Worlds after which a clear difference ends the study; None plays all.
    """
    several = settings.get("targets.options.desk", "a") != "a"
    ours = "composed" if several else "routed"
    rivals = ("mixed_grpo", "joint", "base") if "training.single_arms" in settings else ("mixed_grpo", "base")
    primary = tuple(Comparison(arm=ours, rival=rival) for rival in rivals)
    other = "routed" if several else "oracle_routed"
    return Plan(
        settings=settings,
        worlds=tuple(
            World(
                number=n + 1,
                base_seed=first_seed + n,
                target_seed=first_seed + n,
                training_seed=first_seed + n,
            )
            for n in range(worlds)
        ),
        primary=primary,
        look=look,
        secondary=(
            Comparison(arm=ours, rival=other),
            *(Comparison(arm=RELEASED, rival=rival) for rival in ("mixed_grpo", ours)),
            Comparison(arm="mixed_grpo", rival="base"),
        ),
        predictions=(
            Prediction(
                comparison=f"{ours} - base", says="better", because="its environments pay what is lacking"
            ),
        ),
    )
