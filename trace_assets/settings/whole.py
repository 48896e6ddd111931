"""All sections together, and which of them feed a stage."""

from __future__ import annotations

from trace_assets.settings.agent import BaseModelSection, Rollouts, Targets
from trace_assets.settings.diagnosis import (
    Analyst,
    ContrastSection,
    Discovery,
    Labels,
    Selection,
    StabilitySection,
    TriageSection,
    WriterServer,
)
from trace_assets.settings.remedy import EvaluationSection, Routing, SandboxSection, Synthesis, Training
from trace_assets.settings.section import Section
from trace_assets.settings.serving import Serving
from trace_assets.settings.unattended import Automation, Ingest, Schedule, Watch


class Settings(Section):
    """The whole of `trace.toml`."""

    targets: Targets = Targets()
    base_model: BaseModelSection = BaseModelSection()
    rollouts: Rollouts = Rollouts()
    triage: TriageSection = TriageSection()
    discovery: Discovery = Discovery()
    labels: Labels = Labels()
    contrast: ContrastSection = ContrastSection()
    selection: Selection = Selection()
    stability: StabilitySection = StabilitySection()
    sandbox: SandboxSection = SandboxSection()
    synthesis: Synthesis = Synthesis()
    training: Training = Training()
    routing: Routing = Routing()
    evaluation: EvaluationSection = EvaluationSection()
    analyst: Analyst = Analyst()
    writer: WriterServer = WriterServer()
    serving: Serving = Serving()
    ingest: Ingest = Ingest()
    watch: Watch = Watch()
    schedule: Schedule = Schedule()
    automation: Automation = Automation()

    def section(self, name: str) -> Section:
        """Return one section by name."""
        value = getattr(self, name)
        assert isinstance(value, Section)
        return value

    @property
    def writer_server(self) -> WriterServer:
        """The section `writer`, completed from `analyst`."""
        said = {**self.analyst.model_dump(exclude_unset=True), **self.writer.model_dump(exclude_unset=True)}
        return WriterServer.model_validate(said)


SERVICES = ("analyst", "writer", "serving", "ingest", "watch", "schedule", "automation")
"""Sections that say when or by whom something is done and change no result: no asset hangs on them."""


SECTIONS: tuple[str, ...] = tuple(name for name in Settings.model_fields if name not in SERVICES)
"""Sections that feed a stage: one asset `config/<section>` each."""
