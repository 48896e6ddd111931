"""The environments that a world trained its adapters in, as one target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from trace_assets.targets.mixture import Mixture
from trace_assets.targets.protocol import Target
from trace_assets.tournament.arms.protocol import PlayedWorld


@contextmanager
def environments(
    world: PlayedWorld, name: str, each: Callable[[Target], Target] = lambda one: one
) -> Iterator[Target]:
    """Open them in their sandboxes.

    Args:
        world: At least one adapter was trained in it.
        name: Of the whole.
        each: What becomes of each of them first.
    """
    from trace_assets.assets.curriculum import taught
    from trace_assets.resources.sandbox import read_environment, training_target

    study = world.study
    with ExitStack() as stack:
        opened = [
            stack.enter_context(training_target(study, read_environment(study, capability)))
            for capability in sorted(taught(study))
        ]
        yield Mixture(name, [each(one) for one in opened])
