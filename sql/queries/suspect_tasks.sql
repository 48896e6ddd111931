-- Tasks whose ground truth is doubtful, with the evidence; those that are put aside come first.
-- $target: only this target
SELECT task_id, target, grade, rule, aside, n_passed, n_failed, detail
FROM suspect_tasks
WHERE $target::VARCHAR IS NULL OR target = $target
ORDER BY aside DESC, grade DESC, target, task_id, number;
