"""One TOML file, one section a stage, one fingerprint a section.

A section is all that its stage may be told: the Dagster graph has one `config/<section>` asset each, so
an edit re-computes only the stages that read the section.
"""

from trace_assets.settings.diagnosis import (
    Analyst,
    ContrastSection,
    Discovery,
    Labels,
    RepairsSection,
    Selection,
    StabilitySection,
    TriageSection,
)
from trace_assets.settings.evaluation import (
    BaseModelSection,
    EvaluationSection,
    Rollouts,
    Rounds,
    Routing,
    Serving,
    Targets,
)
from trace_assets.settings.operation import Automation, Ingest, Schedule, Watch
from trace_assets.settings.section import Section
from trace_assets.settings.settings import SECTIONS, SERVICES, Settings, load_settings
from trace_assets.settings.training import SandboxSection, Synthesis, Training

__all__ = [
    "SECTIONS",
    "SERVICES",
    "Analyst",
    "Automation",
    "BaseModelSection",
    "ContrastSection",
    "Discovery",
    "EvaluationSection",
    "Ingest",
    "Labels",
    "RepairsSection",
    "Rollouts",
    "Rounds",
    "Routing",
    "SandboxSection",
    "Schedule",
    "Section",
    "Selection",
    "Serving",
    "Settings",
    "StabilitySection",
    "Synthesis",
    "Targets",
    "Training",
    "TriageSection",
    "Watch",
    "load_settings",
]
