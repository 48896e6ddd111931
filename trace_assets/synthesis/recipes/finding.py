"""Which object a recipe's scenes are about, and the tool that shows it."""

from __future__ import annotations

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.records import CapabilitySpec
from trace_assets.synthesis.contract.target_contract import TargetContract
from trace_assets.synthesis.recipes.ground import Ground
from trace_assets.synthesis.recipes.problems import thin


def ground_of(spec: CapabilitySpec, contract: TargetContract, tool: str, field: str = "") -> Ground:
    """Find the object that a writing tool acts on, and the tool that shows it.

    Args:
        spec: The capability; `read` and `argument` of its detector are taken where it names them.
        contract: Of the target.
        tool: The writing tool.
        field: A field that the record must have.

    Raises:
        InputError: No reading tool shows what the tool acts on.
    """
    guard = contract.guard(tool)
    wanted = str(spec.detector_args.get("read") or "")
    if guard is not None and (not wanted or guard.read == wanted):
        return Ground(
            spec, contract, guard.read, guard.object_argument, guard.read_argument or guard.object_argument
        )
    properties = contract.tool(tool).parameters.get("properties", {})
    for argument in [str(spec.detector_args.get("argument") or ""), *properties]:
        for read in contract.tools:
            shape = contract.result(read.name)
            if (
                read.mutates is False
                and argument in properties
                and argument in read.parameters.get("properties", {})
                and shape is not None
                and (field or argument) in shape.json_schema.get("properties", {})
                and wanted in ("", read.name)
            ):
                return Ground(spec, contract, read.name, argument, argument)
    raise thin(spec, f"no successful trajectory reads an object and then uses '{tool}' on it")


def ground_of_any(spec: CapabilitySpec, contract: TargetContract) -> Ground:
    """Return the object that most of the target's writing tools act on, of those whose use was seen.

    Raises:
        InputError: There is none.
    """
    options: dict[tuple[str, str, str], int] = {}
    for guard in contract.guards:
        if not hands_over(guard.tool):
            place = guard.read, guard.object_argument, guard.read_argument or guard.object_argument
            options[place] = options.get(place, 0) + guard.n
    if not options:
        raise thin(spec, "no successful trajectory reads an object before changing it")
    return Ground(spec, contract, *max(options, key=lambda place: options[place]))


def read_ground(spec: CapabilitySpec, contract: TargetContract, read: str) -> Ground:
    """Find the object that a reading tool shows.

    Raises:
        InputError: The tool names no single object.
    """
    for guard in contract.guards:
        if guard.read == read:
            return Ground(
                spec, contract, read, guard.object_argument, guard.read_argument or guard.object_argument
            )
    needed = contract.tool(read).parameters.get("required", ())
    if len(needed) != 1:
        raise thin(spec, f"'{read}' names no single object")
    return Ground(spec, contract, read, needed[0], needed[0])
