-- What each arm of the evaluation took, alone and with the shared work; null where it was not recorded.
-- `released` is what validation chose: it takes what every candidate took, for all had to be there.
WITH played AS (
    SELECT arm FROM evaluations WHERE split = 'test'
    UNION
    SELECT 'released' FROM composition_choices WHERE chosen
), arm AS (
    SELECT DISTINCT arm,
        CASE WHEN starts_with(arm, 'adapter:') THEN 'adapter' WHEN starts_with(arm, 'merged:') THEN 'chosen'
            WHEN arm = 'oracle_routed' THEN 'chosen' WHEN arm = 'oracle_composed' THEN 'sum'
            WHEN starts_with(arm, 'sum:') THEN 'sum' WHEN arm IN ('joint', 'sequential', 'together') THEN 'single'
            WHEN arm IN ('base', 'mixed_grpo', 'routed', 'sum', 'composed', 'consolidated', 'released') THEN arm
            ELSE 'unknown' END AS class,
        CASE WHEN starts_with(arm, 'adapter:') THEN substr(arm, 9) END AS capability
    FROM played
), made(asset, classes) AS (
    VALUES ('mixed_adapter', ['mixed_grpo']), ('joint_adapters', ['single', 'released']),
        ('pilot', ['adapter', 'chosen', 'sum', 'routed', 'composed', 'consolidated', 'released']),
        ('adapter', ['adapter', 'chosen', 'sum', 'routed', 'composed', 'consolidated', 'released']),
        ('adapter_validation', ['chosen', 'sum', 'routed', 'composed', 'consolidated', 'released']),
        ('interference', ['sum', 'composed', 'consolidated', 'released', 'single']),
        ('routing_trials', ['routed', 'composed', 'consolidated', 'released']),
        ('routing', ['routed', 'composed', 'consolidated', 'released']), ('consolidated', ['consolidated', 'released'])
), shared AS (
    -- Made once for all targeted arms: discovery, diagnosis, environments and their audits.
    SELECT unnest([
        'trajectories', 'triage', 'suspect_tasks', 'lucky_passes', 'capability_dictionary',
        'batch_capabilities', 'labels', 'lack_causes', 'repairs', 'contrast', 'selected_capabilities',
        'capability_spec', 'target_contract', 'decision_patterns', 'environment', 'environment_audit',
        'environment_verdict', 'curriculum']) AS asset
), need AS (
    SELECT arm.*, made.asset, false AS is_shared FROM arm, made WHERE list_contains(made.classes, arm.class)
    UNION ALL
    SELECT arm.*, shared.asset, true FROM arm, shared WHERE class NOT IN ('base', 'mixed_grpo', 'unknown')
    UNION ALL
    -- What joins adapters is made in one step with the adapters for all: their time is in it.
    SELECT arm.*, 'joint_adapters', false FROM arm
    WHERE class IN ('composed', 'consolidated') AND EXISTS (SELECT 1 FROM adapters WHERE kind = 'joining')
), booked AS (
    -- One capability's adapter pays for its own environment and pilot alone.
    SELECT need.arm, need.is_shared, ledger.kind, ledger.unit, ledger.quantity, ledger.cost_usd
    FROM need JOIN ledger USING (asset)
    WHERE need.capability IS NULL OR ledger.partition = need.capability OR ledger.asset NOT IN (
        'capability_spec', 'decision_patterns', 'environment', 'environment_audit', 'environment_verdict',
        'pilot', 'adapter')
), looked AS (
    SELECT name, sum(validation_n) AS n FROM training_curves GROUP BY name
), learned AS (
    SELECT arm.arm, sum(adapters.rollouts) AS rollouts,
        sum(2 * adapters.validation_n + coalesce(looked.n, 0)) AS looks
    FROM arm, adapters LEFT JOIN looked USING (name)
    WHERE CASE arm.class WHEN 'adapter' THEN adapters.capability_id = arm.capability
        WHEN 'single' THEN adapters.kind = arm.arm WHEN 'mixed_grpo' THEN adapters.kind = 'mixed'
        WHEN 'released' THEN adapters.kind <> 'mixed'
        WHEN 'consolidated' THEN adapters.kind IN ('capability', 'joining', 'consolidated')
        WHEN 'composed' THEN adapters.kind IN ('capability', 'joining')
        ELSE adapters.kind = 'capability' END
    GROUP BY arm.arm
), piloted AS (
    -- Few tasks are played several times at each look.
    SELECT capability_id, sum(n_episodes) AS looks FROM pilot_points GROUP BY capability_id
), counted AS (
    SELECT 1 AS place, arm, 'training' AS kind, rollouts AS own, 0 AS common FROM learned
    UNION ALL
    SELECT 2, arm, 'discovery', 0, sum(quantity) FILTER (WHERE kind = 'rollouts')
    FROM need JOIN ledger USING (asset) WHERE asset = 'trajectories' GROUP BY arm
    UNION ALL
    SELECT 3, arm.arm, 'audits', 0, sum(seed_outcomes.n)
    FROM arm, seed_outcomes
    WHERE class NOT IN ('base', 'mixed_grpo', 'unknown')
        AND coalesce(arm.capability, seed_outcomes.capability_id) = seed_outcomes.capability_id
    GROUP BY arm.arm
    UNION ALL
    SELECT 4, need.arm, 'pilots', sum(rollouts + n_checkpoints * n_seeds + coalesce(looks, 0)), 0
    FROM need, pilots LEFT JOIN piloted USING (capability_id)
    WHERE asset = 'pilot' AND coalesce(need.capability, pilots.capability_id) = pilots.capability_id
    GROUP BY need.arm
    UNION ALL
    SELECT 5, arm, 'gradient probe', sum(quantity) FILTER (WHERE kind = 'rollouts'), 0
    FROM need JOIN ledger USING (asset) WHERE asset = 'interference' GROUP BY arm
    UNION ALL
    SELECT 6, arm, 'checkpoint looks', looks, 0 FROM learned
    UNION ALL
    SELECT 7, arm.arm, 'validation', count(*), 0
    FROM arm, evaluations AS one
    WHERE one.split = 'validation' AND class NOT IN ('base', 'mixed_grpo', 'unknown') AND (
        one.arm IN ('base', arm.arm) OR (class = 'released' AND one.arm <> 'mixed_grpo')
        OR (starts_with(one.arm, 'adapter:') AND class NOT IN ('adapter', 'single'))
        OR (starts_with(one.arm, 'sum:') AND class IN ('sum', 'composed', 'consolidated')))
    GROUP BY arm.arm
), through AS (
    -- Of the agent after several rounds, whose ledgers lie in homes of their own, only the training is known here.
    SELECT 'round:' || upto.round AS arm, sum(one.training_rollouts) AS training
    FROM rounds AS upto JOIN rounds AS one ON one.round <= upto.round GROUP BY upto.round
), free(kind, place, classes) AS (
    -- Arms that need nothing of the kind. Elsewhere a count without rows is 0 only where the loop got so far.
    VALUES ('training', 1, ['base']),
        ('discovery', 2, ['base', 'mixed_grpo']), ('audits', 3, ['base', 'mixed_grpo']),
        ('pilots', 4, ['base', 'mixed_grpo', 'single']),
        ('gradient probe', 5, ['base', 'mixed_grpo', 'adapter', 'chosen', 'routed']),
        ('checkpoint looks', 6, ['base']), ('validation', 7, ['base', 'mixed_grpo'])
), episodes AS (
    SELECT free.place, arm.arm, free.kind,
        CASE WHEN list_contains(free.classes, class) THEN 0
            WHEN class = 'unknown' THEN if(free.kind = 'training', through.training, NULL)
            ELSE coalesce(counted.own, began.nothing) END AS own,
        CASE WHEN list_contains(free.classes, class) THEN 0
            WHEN class = 'unknown' THEN if(free.kind = 'training' AND through.training IS NOT NULL, 0, NULL)
            ELSE coalesce(counted.common, began.nothing) END AS common
    FROM arm CROSS JOIN free CROSS JOIN (
        SELECT CASE WHEN count(*) > 0 THEN 0 END AS nothing FROM ledger WHERE asset = 'curriculum') AS began
    LEFT JOIN counted ON counted.arm = arm.arm AND counted.kind = free.kind
    LEFT JOIN through ON through.arm = arm.arm
), together AS (
    SELECT 8 AS place, arm, 'rollouts in all' AS kind,
        CASE WHEN count(own) = count(*) THEN sum(own) END AS own,
        CASE WHEN count(common) = count(*) THEN sum(common) END AS common
    FROM episodes GROUP BY arm
), asked AS (
    SELECT need.arm, sum(looks) AS looks
    FROM need, piloted
    WHERE asset = 'pilot' AND coalesce(need.capability, capability_id) = capability_id
    GROUP BY need.arm
), judged AS (
    -- Those of them that the target judged: all of direct training; environments judge the rest.
    SELECT 8 AS place, arm.arm, 'verdicts of the target' AS kind,
        CASE WHEN class = 'mixed_grpo' THEN together.own
            WHEN count(episodes.own) = count(*)
            THEN sum(episodes.own) FILTER (WHERE episodes.kind = 'validation') + coalesce(asked.looks, 0)
        END AS own,
        sum(episodes.common) FILTER (WHERE episodes.kind = 'discovery') AS common
    FROM arm JOIN episodes USING (arm) JOIN together USING (arm) LEFT JOIN asked USING (arm)
    GROUP BY arm.arm, class, together.own, asked.looks
), measured AS (
    SELECT arm, kind, sum(quantity) FILTER (WHERE NOT is_shared) AS own,
        sum(quantity) FILTER (WHERE is_shared) AS common
    FROM booked WHERE kind <> 'rollouts' GROUP BY ALL
    UNION ALL
    SELECT arm, 'dollars', coalesce(sum(cost_usd) FILTER (WHERE NOT is_shared), 0),
        coalesce(sum(cost_usd) FILTER (WHERE is_shared), 0)
    FROM booked GROUP BY arm
), rest(place, kind, unit, ledger_kind) AS (
    VALUES (10, 'tokens of the agent', 'tokens', ''), (11, 'wall', 's', 'wall'), (12, 'cpu', 's', 'cpu'),
        (13, 'gpu', 's', 'gpu'), (14, 'requests to models', 'requests', 'model_calls'),
        (15, 'tokens read by models', 'tokens', 'prompt_tokens'),
        (16, 'tokens written by models', 'tokens', 'completion_tokens'), (17, 'dollars', 'USD', 'dollars')
), others AS (
    -- Two arms of one step have its time together: apart it was not recorded.
    SELECT rest.place, arm.arm, rest.kind, rest.unit,
        CASE WHEN class = 'base' THEN 0
            WHEN class <> 'single' OR 2 > (SELECT count(*) FROM arm WHERE class = 'single') THEN measured.own
        END AS own,
        CASE WHEN class IN ('base', 'mixed_grpo') THEN 0 ELSE measured.common END AS common
    FROM arm CROSS JOIN rest LEFT JOIN measured ON measured.arm = arm.arm AND measured.kind = rest.ledger_kind
)
SELECT arm, kind, 'episodes' AS unit, own::DOUBLE AS marginal, (own + common)::DOUBLE AS all_in, place
FROM (FROM episodes UNION ALL FROM together UNION ALL FROM judged)
UNION ALL
SELECT arm, 'evaluation', 'episodes', count(*)::DOUBLE, count(*)::DOUBLE, 9
FROM evaluations WHERE split = 'test' GROUP BY arm
UNION ALL
SELECT arm, kind, unit, own::DOUBLE, (own + common)::DOUBLE, place FROM others
ORDER BY arm, place, kind;
