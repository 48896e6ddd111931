"""What a study will take: episodes, tokens, hours, accelerator memory, money, and what its tasks can show.

Episodes follow from the settings. Tokens of an episode are those of the stored ones, else of published runs
of the same benchmark, else the most that the limits allow. Hours are those of earlier runs in this home, else
arithmetic over a device's published rates, as a range; where neither is known, none is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from trace_assets.diagnosis.llm.budget import price
from trace_assets.diagnosis.llm.prices import with_prices
from trace_assets.errors import InputError, TraceError
from trace_assets.records import LedgerEntry, SelectedCapability, Split, TrajectoryHead
from trace_assets.resources.contract import read_contract
from trace_assets.settings import Analyst
from trace_assets.stats.power import GainDesign, GapDesign, gain_power, gap_power
from trace_assets.store.history import History, history
from trace_assets.study import Study
from trace_assets.system.machine import Accelerator, accelerators
from trace_assets.targets.registry import check_named
from trace_assets.training.base_folder import check_folder
from trace_assets.training.presets import GIB, Shape, read_shape, step_memory
from trace_assets.workflows.device_rates import Episode, Rate, rate_of
from trace_assets.workflows.forecast import asks_model, forecast, judge_price, judging_of

GAPS = (0.2, 0.3, 0.4)
GAINS = (0.05, 0.1, 0.15)


PUBLISHED = {
    "tau2:airline": Episode(13, 1258, 7117, 11344, 330, "90 published runs"),
    "tau2:retail": Episode(13, 799, 6977, 6700, 284, "80 published runs"),
    "tau2:telecom": Episode(20, 1027, 9101, 74824, 578, "80 published runs"),
    "tau2:telecom_solo": Episode(15, 277, 9185, 0, 0, "80 published runs"),
}
"""Means over the simulations of gpt-4.1, its fine-tune and qwen2.5-7b that came with tau2-bench."""


@dataclass(frozen=True)
class Stage:
    """One stage of the loop.

    Attributes:
        asset: Its asset.
        episodes: Fewest and most; they differ where the number of capabilities is not known yet.
        trains: Whether its episodes are learned from as well.
        on_target: Whether they are played in the target, with its simulated user.
        hours: Least and most; None where nothing is known.
        basis: Where the hours come from.
        learned: Episodes that are learned once more and not played, at most: demonstrations, each learned
            several times.
    """

    asset: str
    episodes: tuple[int, int]
    trains: bool
    on_target: bool
    hours: tuple[float, float] | None
    basis: str
    learned: int = 0


@dataclass(frozen=True)
class Budget:
    """What a study will take.

    Attributes:
        target: The live target's name.
        elsewhere: Targets of stored trajectories that are not the live one: nothing is played there.
        capabilities: Fewest and most that are taught.
        tasks: Split -> tasks.
        tasks_basis: `the target`, or `at most` where it could not be asked.
        episode: Tokens of one.
        stages: In order.
        memory_gib: What a training step needs on one device; None where the model's shape is not known.
        devices: What is there.
        usd: Of model calls of the diagnosis, and of hours where their price was named: least and most.
        gap_power: Gap -> probability that it is selected, at these tasks and trials.
        gain_power: Gain -> probability that it is shown on the test tasks.
        missing: What could not be told, each in a sentence.
    """

    target: str
    elsewhere: Sequence[str]
    capabilities: tuple[int, int]
    tasks: Mapping[str, int]
    tasks_basis: str
    episode: Episode
    stages: Sequence[Stage]
    memory_gib: float | None
    devices: Sequence[Accelerator]
    usd: tuple[float, float] | None
    gap_power: Mapping[float, float]
    gain_power: Mapping[float, float]
    missing: Sequence[str]

    @property
    def episodes(self) -> tuple[int, int]:
        """Fewest and most episodes in all."""
        return _sum([stage.episodes for stage in self.stages])

    @property
    def written(self) -> tuple[float, float]:
        """Tokens that the agent writes in all."""
        low, high = self.episodes
        return low * self.episode.written, high * self.episode.written

    @property
    def user_tokens(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Tokens that the simulated user's server reads, and writes."""
        low, high = _sum([stage.episodes for stage in self.stages if stage.on_target])
        one = self.episode
        return (low * one.user_read, high * one.user_read), (low * one.user_written, high * one.user_written)

    @property
    def hours(self) -> tuple[float, float] | None:
        """Hours of all stages of which they are known; None where of none."""
        known = [stage.hours for stage in self.stages if stage.hours is not None]
        return (sum(one[0] for one in known), sum(one[1] for one in known)) if known else None

    def document(self) -> dict[str, Any]:
        """Return it as one JSON document."""
        read, written = self.user_tokens
        return {
            **asdict(self),
            "episodes": self.episodes,
            "tokens": {"agent_written": self.written, "user_read": read, "user_written": written},
            "hours": self.hours,
        }


def _sum(ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(one[0] for one in ranges), sum(one[1] for one in ranges)


def budget(study: Study, *, gpu_usd: float = 0.0, found: Sequence[Accelerator] | None = None) -> Budget:
    """Return what a study will take. Nothing is played, trained or asked.

    Args:
        study: The study.
        gpu_usd: Price of an hour of this machine, in USD.
        found: Its accelerators; None looks.

    Raises:
        InputError: The settings name a target or a base model that there is none of.
    """
    check_named(study.settings.targets)
    check_folder(study.settings.base_model.path, study.home.path)
    settings, missing = study.settings, list[str]()
    devices = list(accelerators() if found is None else found)
    tasks, basis = _tasks(study, missing)
    episode = _episode(study)
    capabilities = _capabilities(study)
    shape = read_shape(Path(settings.base_model.path)) if settings.base_model.path else None
    if settings.base_model.path and shape is None:
        missing.append("the model's shape (no config.json in a local folder), and with it memory and hours.")
    past = history(study.store.read(LedgerEntry))
    rate = rate_of(shape, devices, settings.training.concurrency, episode)
    learned = {"adapter": capabilities[1] * _demonstrated(study)}
    stages = [
        Stage(
            name,
            episodes,
            trains,
            on_target,
            *_hours(name, episodes, trains, learned.get(name, 0), past, rate, shape),
            learned.get(name, 0),
        )
        for name, episodes, trains, on_target in _played(study, tasks, capabilities)
    ]
    if unknown := [stage.asset for stage in stages if stage.hours is None]:
        missing.append(
            f"hours of {', '.join(unknown)}: neither an earlier run in this home nor the rates of a known "
            "GPU say them; `trace run --select trajectories` measures a first stage."
        )
    tokens = max(1, round(episode.context))
    memory = step_memory(shape, settings.training, tokens).total / GIB if shape else None
    live = settings.targets.name
    stored = study.store.frame(TrajectoryHead)["target"].unique().to_list()
    gap_power, gain_power = _powers(study, tasks)
    made = Budget(
        target=live,
        elsewhere=sorted({*stored} - {live}),
        capabilities=capabilities,
        tasks=tasks,
        tasks_basis=basis,
        episode=episode,
        stages=stages,
        memory_gib=memory,
        devices=devices,
        usd=None,
        gap_power=gap_power,
        gain_power=gain_power,
        missing=missing,
    )
    return _priced(study, made, gpu_usd)


def _tasks(study: Study, missing: list[str]) -> tuple[Mapping[str, int], str]:
    section = study.settings.targets
    limits: dict[Split, int] = {
        "discovery": section.discovery_tasks,
        "validation": section.validation_tasks,
        "test": section.test_tasks,
    }
    try:
        return {str(split): len(study.target.tasks(split)) for split in limits}, "the target"
    except TraceError as error:
        missing.append(f"the number of tasks: {error}")
        return {str(split): n for split, n in limits.items()}, "at most"


def _episode(study: Study) -> Episode:
    """Return the tokens of an episode: of the stored ones of the live target, else as published."""
    section = study.settings.targets
    frame = study.store.frame(TrajectoryHead)
    own = [
        row
        for row in frame.select("target", "n_messages", "completion_tokens", "prompt_tokens").iter_rows(
            named=True
        )
        if row["target"] == section.name and row["completion_tokens"] is not None
    ]
    published = PUBLISHED.get(section.name)
    if published and "user_model" not in section.options:  # a scripted user, or none, reads no tokens
        published = replace(published, user_read=0.0, user_written=0.0)
    if own:
        turns = max(1.0, sum(row["n_messages"] for row in own) / len(own) / 2)
        written = sum(row["completion_tokens"] for row in own) / len(own)
        read = sum(row["prompt_tokens"] or 0 for row in own) / len(own)
        # Prompts of later turns hold the earlier ones: their mean lies near the middle of the conversation.
        user = (published.user_read, published.user_written) if published else (0.0, 0.0)
        return Episode(turns, written, max(written, 2 * read / turns), *user, f"{len(own)} stored runs")
    if published:
        return published
    rollouts = study.settings.rollouts
    most = float(rollouts.max_turns * rollouts.max_new_tokens)
    return Episode(rollouts.max_turns, most, 2 * most, 0, 0, "the limits: at most")


def _capabilities(study: Study) -> tuple[int, int]:
    live = study.settings.targets.name
    rows = [row for row in study.store.read(SelectedCapability) if row.target == live]
    if rows:
        kept = sum(row.kept for row in rows)
        return kept, kept
    return 0, study.settings.selection.max_capabilities


def _played(
    study: Study, tasks: Mapping[str, int], capabilities: tuple[int, int]
) -> list[tuple[str, tuple[int, int], bool, bool]]:
    """Return asset, episodes, whether it trains, and whether it plays in the target."""
    settings = study.settings
    training, synthesis, trials = settings.training, settings.synthesis, settings.evaluation.trials
    rollouts = training.iterations * training.tasks_per_iteration * training.group_size
    looks = training.iterations // training.validate_every + 1
    checked = looks * training.validation_seeds + 2 * training.validation_episodes
    pilot = round(training.pilot_share * rollouts) + training.pilot_search
    pilot += 2 * (training.pilot_steps + 1) * training.pilot_tasks

    def each(one: int) -> tuple[int, int]:
        return one * capabilities[0], one * capabilities[1]

    def arms(beside: int) -> tuple[int, int]:
        few, many = capabilities
        return (few + beside if few else 0, many + beside if many else 0)

    mixed = int(training.mixed_arm)
    test, validation = tasks["test"] * trials, tasks["validation"] * trials
    found: list[tuple[str, tuple[int, int], bool, bool]] = [
        ("trajectories", (tasks["discovery"] * settings.rollouts.trials,) * 2, False, True),
        ("environment_audit", each(synthesis.audit_seeds * synthesis.audit_rollouts), False, False),
        ("pilot", each(0 if training.pilot == "off" else pilot), False, False),
        ("adapter", each(rollouts + checked), True, False),
        ("adapter_validation", _times(arms(1), validation), False, True),
        ("evaluation", _times(arms(1 + mixed), test), False, True),
    ]
    if mixed:
        few, many = each(rollouts)
        found.insert(
            4, ("mixed_adapter", (few + bool(few) * checked, many + bool(many) * checked), True, True)
        )
    return found


def _demonstrated(study: Study) -> int:
    """Return how many episodes an adapter learns of demonstrations at most, where these come first."""
    if not study.settings.training.begins_warm:
        return 0
    from trace_assets.training.warm_start import EPISODES, STEPS

    return STEPS * EPISODES


def _times(arms: tuple[int, int], episodes: int) -> tuple[int, int]:
    return arms[0] * episodes, arms[1] * episodes


def _hours(
    asset: str,
    episodes: tuple[int, int],
    trains: bool,
    learned: int,
    past: History,
    rate: Rate | None,
    shape: Shape | None,
) -> tuple[tuple[float, float] | None, str]:
    if not episodes[1]:
        return (0.0, 0.0), "nothing to play"
    each = [
        run.seconds / run.episodes
        for (name, _), runs in past.items()
        if name == asset
        for run in runs
        if run.episodes
    ]
    if each:
        return (episodes[0] * min(each) / 3600, episodes[1] * max(each) / 3600), f"{len(each)} earlier runs"
    if rate is None:
        return None, "not known"
    low, high = rate.playing
    if trains:
        low, high = low + rate.learning[0], high + rate.learning[1]
    most = episodes[1] * high + learned * rate.learning[1]
    return (episodes[0] * low / 3600, most / 3600), f"arithmetic for one {rate.device}"


def _powers(study: Study, tasks: Mapping[str, int]) -> tuple[dict[float, float], dict[float, float]]:
    selection = study.settings.selection
    gaps = {}
    for gap in GAPS:
        design = GapDesign(
            gap=gap,
            trials=study.settings.rollouts.trials,
            max_q=selection.max_q,
            min_gap=selection.min_gap,
            min_gap_low=selection.min_gap_low,
            min_coverage=selection.min_coverage,
            min_coverage_low=selection.min_coverage_low,
            min_relevant=selection.min_relevant,
        )
        gaps[gap] = gap_power(design, max(1, tasks["discovery"]))
    trials = study.settings.evaluation.trials
    gains = {
        gain: gain_power(GainDesign(gain=gain, base_rate=0.5, trials=trials), max(1, tasks["test"]))
        for gain in GAINS
    }
    return gaps, gains


def _priced(study: Study, made: Budget, gpu_usd: float) -> Budget:
    """Put the money in: model calls of the diagnosis, and hours where their price was named."""
    missing, low, high, known = list(made.missing), 0.0, 0.0, False
    if gpu_usd < 0:
        raise InputError(f"--gpu-usd must not be negative, got {gpu_usd}.")
    if asks_model(study):
        if study.store.partitions(TrajectoryHead):
            usd = sum(row.usd for row in forecast(study))
            low, high, known = low + usd, high + usd, True
        else:
            missing.append("what the model analyst costs, before trajectories are there to be read to it.")
    if study.settings.synthesis.judge:
        try:
            least, most = judging_of(study, read_contract(study))
        except InputError:
            missing.append("what judging environments costs, before the target's contract is read.")
        else:
            low += made.capabilities[0] * judge_price(study, least)
            high, known = high + made.capabilities[1] * judge_price(study, most), True
    if gpu_usd and made.hours is not None:
        low, high, known = low + made.hours[0] * gpu_usd, high + made.hours[1] * gpu_usd, True
    options = study.settings.targets.options
    user, address = str(options.get("user_model", "")), str(options.get("user_base_url", ""))
    read, written = made.user_tokens
    if user and read[1]:
        section = with_prices(Analyst(base_url=address), [user])
        if not section.prompt_usd:
            missing.append(
                f"the price of the simulated user '{user}': its tokens are above, its server says their cost."
            )
        else:
            low += price(section, round(read[0]), round(written[0]))
            high += price(section, round(read[1]), round(written[1]))
            known = True
    return replace(made, usd=(low, high) if known else None, missing=missing)
