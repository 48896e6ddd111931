"""The asset `target_contract`: what every environment is held to."""

from __future__ import annotations

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.errors import InputError
from trace_assets.records import ContractRow, TrajectoryHead
from trace_assets.resources.contract import _contract, _targets, summary
from trace_assets.study import Study


@asset(
    "target_contract",
    group="synthesis",
    records=(ContractRow,),
    deps=["trajectories", "config/targets"],
    checks={"every_target_has_one": "Each target with trajectories has a contract."},
)
def write_contracts(study: Study) -> StageResult:
    """What every environment is held to: each target's tools, shapes and wording, never its code.

    Raises:
        InputError: No target has discovery trajectories.
    """
    contracts, left_out = [], []
    places = [(study.store, key) for key in study.store.partitions(TrajectoryHead)]
    names = sorted({name for place in places for name in _targets(*place)})
    for name in names or [study.settings.targets.name]:
        try:
            contracts.append(_contract(study, name, places))
        except InputError as error:
            if len(names) < 2:
                raise
            left_out.append(f"{name}: {error}")
    rows = [
        ContractRow(
            target=contract.target,
            fingerprint=contract.fingerprint(),
            n_trajectories=contract.n_trajectories,
            contract=contract.model_dump(mode="json"),
        )
        for contract in contracts
    ]
    version = study.store.write(rows, ContractRow)
    return StageResult(
        version,
        len(rows),
        {
            "targets": len(rows),
            "tools": sum(len(contract.tools) for contract in contracts),
            "n_trajectories": sum(contract.n_trajectories for contract in contracts),
        },
        tables={"contracts": [summary(contract) for contract in contracts]},
        checks=(
            StageCheck(
                "every_target_has_one",
                not left_out,
                "; ".join(left_out) or f"{len(rows)} of {len(rows)} targets.",
                "warning",
            ),
        ),
    )
