"""Whether what the settings name is there: the target that is played, the folder of the base model.

A forecast opens neither, and would plan for what there is none of.
"""

from __future__ import annotations

from trace_assets.errors import InputError
from trace_assets.study import Study
from trace_assets.targets.registry import check_named
from trace_assets.training.base_folder import gone_folder


def check_target(study: Study) -> None:
    """Look whether there is a target of the name that the settings give; none is opened.

    Raises:
        InputError: There is none.
    """
    check_named(study.settings.targets)


def check_base(study: Study) -> None:
    """Look whether the base model that the settings name lies where they say; a hub's is not asked for.

    Raises:
        InputError: Its folder is gone.
    """
    path = study.settings.base_model.path
    gone = path and gone_folder(path, study.home.path)
    if gone:
        raise InputError(gone)
