"""The two ways in which assets are partitioned: by arrival of tasks, and by capability."""

import dagster as dg

TASK_BATCH = dg.DynamicPartitionsDefinition(name="task_batch")
"""Tasks arrive in batches; a new batch never redoes the rollouts of an old one."""

CAPABILITY = dg.DynamicPartitionsDefinition(name="capability")
"""One key a kept capability of the live target; keys come and go with the selection."""
