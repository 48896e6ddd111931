"""Whether the tools are the target's."""

from __future__ import annotations

from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject


def tools_equal(subject: Subject) -> Finding:
    """The tools are the target's: names, descriptions and schemas, in any order."""
    if subject.contract is None:
        return Finding("skip", "no target contract was given to compare with")
    wanted = {tool.name: tool.openai()["function"] for tool in subject.contract.tools}
    given = {tool["function"]["name"]: tool["function"] for tool in subject.probe.tools()}
    differences = [f"lacks {name}" for name in wanted if name not in given]
    differences += [f"adds {name}" for name in given if name not in wanted]
    differences += [f"differs in {name}" for name in wanted if name in given and wanted[name] != given[name]]
    bound = f"equal to the {len(wanted)} tools of '{subject.contract.target}'"
    if differences:
        return Finding("fail", "; ".join(differences[:5]), len(differences), len(wanted), bound)
    return Finding("pass", "no difference", 0.0, len(wanted), bound)


CHECKS = (AuditCheck("trace.fidelity.schema", "fidelity", tools_equal, ("runtime.startup",)),)
