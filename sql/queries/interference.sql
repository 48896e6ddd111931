-- Cosines of the capabilities' policy gradients at the base policy: verdicts on two capabilities first.
-- $capability: only comparisons with this capability
SELECT i.capability_id, i.condition, i.other_id, i.other_condition, i.verdict,
    round(i.cosine, 3) AS cosine, round(i.cosine_low, 3) AS cosine_low,
    round(i.cosine_high, 3) AS cosine_high, round(i.corrected, 3) AS corrected,
    round(i.reliability, 3) AS reliability, i.reason
FROM interference AS i
WHERE $capability::VARCHAR IS NULL OR i.capability_id = $capability OR i.other_id = $capability
ORDER BY i.condition <> '', i.cosine NULLS LAST, i.capability_id, i.condition, i.other_id, i.other_condition;
