"""All definitions in one plain tree: what a review of a change to the graph reads."""

from __future__ import annotations

from typing import Any

import dagster as dg

KIND = "dagster/kind/"


def snapshot(definitions: dg.Definitions) -> dict[str, Any]:
    """Return every asset with its place in the graph and its checks, and every job, sensor and schedule.

    Code versions are left out, because each edit of the code moves them: that there is one is what counts.
    """
    graph = definitions.resolve_asset_graph()
    repository = definitions.get_repository_def()
    return {
        "assets": {
            key.to_user_string(): _asset(definitions, graph.get(key))
            for key in sorted(graph.get_all_asset_keys())
        },
        "jobs": {
            job.name: {
                "steps": sorted(node.name for node in job.nodes),
                "tags": dict(sorted(job.tags.items())),
            }
            for job in repository.get_all_jobs()
            if not job.name.startswith("__")
        },
        "sensors": {
            sensor.name: {
                "kind": type(sensor).__name__,
                "by default": sensor.default_status.value,
                "assets": _targets(sensor, definitions),
            }
            for sensor in sorted(repository.sensor_defs, key=lambda one: one.name)
        },
        "schedules": {
            schedule.name: {
                "cron": schedule.cron_schedule,
                "timezone": schedule.execution_timezone,
                "by default": schedule.default_status.value,
                "job": schedule.job_name,
            }
            for schedule in sorted(repository.schedule_defs, key=lambda one: one.name)
        },
    }


def check_spec(definitions: dg.Definitions, key: dg.AssetCheckKey) -> dg.AssetCheckSpec:
    """Return a check's specification, whether the asset's own step makes it or a step beside it."""
    return definitions.resolve_asset_graph().get_check_spec(key)


def _asset(definitions: dg.Definitions, node: Any) -> dict[str, Any]:
    checks = {
        key.name: "blocking" if check_spec(definitions, key).blocking else "shown"
        for key in sorted(node.check_keys)
    }
    schema = node.metadata.get("dagster/column_schema")
    return {
        "group": node.group_name,
        "kinds": ", ".join(sorted(node.kinds)),
        "owners": ", ".join(sorted(node.owners)),
        "tags": ", ".join(
            f"{name}: {tag}" for name, tag in sorted(node.tags.items()) if not name.startswith(KIND)
        ),
        "depends on": ", ".join(sorted(key.to_user_string() for key in node.parent_keys)),
        "partitions": getattr(node.partitions_def, "name", None),
        "code version": node.code_version is not None,
        "table": node.metadata.get("dagster/table_name"),
        "columns": ", ".join(column.name for column in schema.columns) if schema else "",
        "checks": checks,
        "automation": node.automation_condition.get_label() if node.automation_condition else None,
        "freshness": type(node.freshness_policy).__name__ if node.freshness_policy else None,
        "pool": getattr(node.assets_def.op, "pool", None),
    }


def _targets(sensor: dg.SensorDefinition, definitions: dg.Definitions) -> str:
    if isinstance(sensor, dg.AutomationConditionSensorDefinition):
        keys = sensor.asset_selection.resolve(definitions.resolve_asset_graph())
        return ", ".join(sorted(key.to_user_string() for key in keys))
    return ""
