INSERT INTO sessions (key, id, policy, config, opened_at, closed_at, next_seq, step, held, tokens, due_at) VALUES
    (1, 's', 'ttl', '{"ttl_seconds": {"low": 3600.0, "medium": 14400.0, "high": 43200.0, "critical": 86400.0}, "promote_accesses": {"low": 10, "medium": 15, "high": 20, "critical": 10}, "promote_score": 0.8, "promote_critical_accesses": 1, "promote_age_seconds": 21600.0, "promote_age_accesses": 5}', '2024-12-22T15:00:00.000000+00:00', NULL, 4, 0, 2, 12, '2024-12-22T17:05:00.000000+00:00'),
    (2, 'b', 'budget', '{"enabled": true, "soft_limit": 2, "hard_limit": 9, "batch_size": 1, "tag_aware_archival": true, "protected_tags": ["insight", "permanent", "personal", "decision", "architecture", "important"]}', '2024-12-22T15:00:00.000000+00:00', NULL, 2, 0, 1, 4, '2024-12-22T15:00:30.000000+00:00'),
    (3, 't', 'ttl', '{"ttl_seconds": {"low": 3600.0, "medium": 14400.0, "high": 43200.0, "critical": 86400.0}, "promote_accesses": {"low": 10, "medium": 15, "high": 20, "critical": 10}, "promote_score": 0.8, "promote_critical_accesses": 1, "promote_age_seconds": 21600.0, "promote_age_accesses": 5}', '2024-12-22T15:00:00.000000+00:00', NULL, 1, 0, 1, 6, '2024-12-22T15:05:00.000000+00:00');
INSERT INTO items (key, session, id, seq, content, priority, importance, token_count, created_at, last_accessed_at, expires_at, importance_score, access_count, step_index, agent, source, tags, metadata, state, state_reason, promoted_to, promoted_at, promotion_reason, rescue, cold, pairs, dreamt_in) VALUES
    (4294967296, 1, 'working_memory_s-The ferry leaves at_20241222-150000', 0, 'The ferry leaves at six', 'high', 0.75, 7, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:01:00.000000+00:00', '2024-12-23T03:00:00.000000+00:00', 0.531883, 2, 0, 'ada', 'chat', '["travel", "hafen"]', '{"k": "v"}', 'live', '', 'memory_promoted_working_memory_s-The ferry leaves at_20241222-150000_20241222-150100', '2024-12-22T15:01:00.000000+00:00', 'manual', 0, 0, '', NULL),
    (4294967297, 1, 'working_memory_s-Left for the archive_20241222-150000', 1, 'Left for the archive: 東京都', 'low', 0.25, 9, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:00:00.000000+00:00', '2024-12-22T16:00:00.000000+00:00', 0.3925, 1, 0, '', '', '["zoo"]', '{}', 'archived', 'expired', '', NULL, '', 0, 1, '東京 京都', 0),
    (4294967298, 1, 'working_memory_s-A hidden thought_20241222-150000', 2, 'A hidden thought', 'medium', 0.5, 5, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:00:00.000000+00:00', '2024-12-22T19:00:00.000000+00:00', 0.4416, 1, 0, '', '', '[]', '{}', 'hidden', 'id', '', NULL, '', 0, 0, '', NULL),
    (4294967299, 1, 'purged-4294967299', 3, '', 'medium', 0.5, 4, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:00:00.000000+00:00', '2024-12-22T19:00:00.000000+00:00', 0.4415, 1, 0, '', '', '[]', '{}', 'purged', 'id', '', NULL, '', 0, 0, '', NULL),
    (8589934592, 2, 'working_memory_b-Waits to become a cr_20241222-150000', 0, 'Waits to become a crystal', 'medium', 0.5, 8, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:00:00.000000+00:00', NULL, 0.4425, 1, 0, '', '', '["todo"]', '{}', 'archived', 'soft_limit', '', NULL, '', 0, 1, '', 0),
    (8589934593, 2, 'working_memory_b-Pushes it out_20241222-150001', 1, 'Pushes it out', 'medium', 0.5, 4, '2024-12-22T15:00:01.000000+00:00', '2024-12-22T15:00:01.000000+00:00', NULL, 0.4413, 1, 0, '', '', '[]', '{}', 'live', '', '', NULL, '', 0, 0, '', NULL),
    (12884901888, 3, 'working_memory_t-Was waiting in the s_20241222-150000', 0, 'Was waiting in the set', 'critical', 1.0, 6, '2024-12-22T15:00:00.000000+00:00', '2024-12-22T15:00:00.000000+00:00', '2024-12-23T15:00:00.000000+00:00', 0.5822, 2, 0, '', '', '[]', '{}', 'live', '', '', NULL, '', 0, 0, '', NULL);
INSERT INTO item_relations (item, type, target, metadata, at) VALUES
    (4294967296, 'about', 'ferry', '{"why": "timetable"}', '2024-12-22T15:00:00.000000+00:00'),
    (4294967296, 'after', 'dinner', '{}', '2024-12-22T15:00:01.000000+00:00');
INSERT INTO promotions (item, id, crystal, record, reason, at, delivered_at) VALUES
    (4294967296, 'memory_promoted_working_memory_s-The ferry leaves at_20241222-150000_20241222-150100', '61d567caefd7189430ebc83b96d7c498', '{"metadata": {"k": "v", "promoted_from_working": "true", "working_memory_id": "working_memory_s-The ferry leaves at_20241222-150000", "working_memory_session": "s", "promotion_reason": "manual", "access_count_at_promotion": "2", "importance_at_promotion": "0.531883"}}', 'manual', '2024-12-22T15:01:00.000000+00:00', '2024-12-22T15:01:00.000000+00:00'),
    (8589934592, 'memory_promoted_working_memory_b-Waits to become a cr_20241222-150000_20241222-150001', '71c15b0b5afaf53425d8672444de0212', '{"metadata": {"promoted_from_working": "true", "working_memory_id": "working_memory_b-Waits to become a cr_20241222-150000", "working_memory_session": "b", "promotion_reason": "auto", "access_count_at_promotion": "1", "importance_at_promotion": "0.442479"}}', 'auto', '2024-12-22T15:00:01.000000+00:00', NULL),
    (12884901888, 'memory_promoted_working_memory_t-Was waiting in the s_20241222-150000_20241222-150000', '094ff9f47374a1c063f5c583f2b724aa', '{"metadata": {"promoted_from_working": "true", "working_memory_id": "working_memory_t-Was waiting in the s_20241222-150000", "working_memory_session": "t", "promotion_reason": "auto", "access_count_at_promotion": "2", "importance_at_promotion": "0.5822"}}', 'auto', '2024-12-22T15:00:00.000000+00:00', NULL);
INSERT INTO item_words (key, folded) VALUES
    (4294967296, 'the ferry leaves at six'),
    (4294967298, 'a hidden thought'),
    (8589934593, 'pushes it out'),
    (12884901888, 'was waiting in the set');
INSERT INTO item_events (key, at, session, item, action, reason, figures) VALUES
    (1, '2024-12-22T15:00:00.000000+00:00', 1, NULL, 'opened', 'ttl', '{}'),
    (2, '2024-12-22T15:00:00.000000+00:00', 1, 4294967296, 'added', '', '{"tokens": 7}'),
    (3, '2024-12-22T15:00:00.000000+00:00', 1, 4294967296, 'related', '', '{}'),
    (4, '2024-12-22T15:00:01.000000+00:00', 1, 4294967296, 'related', '', '{}'),
    (5, '2024-12-22T15:01:00.000000+00:00', 1, 4294967296, 'promoted', 'manual', '{"accesses": 2}'),
    (6, '2024-12-22T15:01:00.000000+00:00', 1, 4294967296, 'delivered', 'manual', '{}'),
    (7, '2024-12-22T15:00:00.000000+00:00', 1, 4294967297, 'added', '', '{"tokens": 9}'),
    (8, '2024-12-22T15:00:00.000000+00:00', 1, 4294967298, 'added', '', '{"tokens": 5}'),
    (9, '2024-12-22T15:00:00.000000+00:00', 1, 4294967298, 'hidden', 'id', '{}'),
    (10, '2024-12-22T15:00:00.000000+00:00', 1, 4294967299, 'added', '', '{"tokens": 4}'),
    (11, '2024-12-22T15:00:00.000000+00:00', 1, 4294967299, 'purged', 'id', '{}'),
    (12, '2024-12-22T17:00:00.000000+00:00', 1, 4294967297, 'archived', 'expired', '{}'),
    (13, '2024-12-22T15:00:00.000000+00:00', 2, NULL, 'opened', 'budget', '{}'),
    (14, '2024-12-22T15:00:00.000000+00:00', 3, NULL, 'opened', 'ttl', '{}'),
    (15, '2024-12-22T15:00:00.000000+00:00', 3, 12884901888, 'added', '', '{"tokens": 6}'),
    (16, '2024-12-22T15:00:00.000000+00:00', 2, 8589934592, 'added', '', '{"tokens": 8}'),
    (17, '2024-12-22T15:00:01.000000+00:00', 2, 8589934593, 'added', '', '{"tokens": 4}'),
    (18, '2024-12-22T15:00:01.000000+00:00', 2, 8589934592, 'promoted', 'soft_limit', '{"accesses": 1}'),
    (19, '2024-12-22T15:00:01.000000+00:00', 2, 8589934592, 'left', 'soft_limit', '{}'),
    (20, '2024-12-22T15:00:00.000000+00:00', 3, 12884901888, 'promoted', 'critical_and_accessed', '{"accesses": 2}');
INSERT INTO crystals (key, id, text, context, pairs, speaker, origin, kind, importance, trust, session, position, lifecycle, accesses, created_at, last_accessed_at, valence, parents, dreamt_in, fades_at, merged_into, heard) VALUES
    (1, '61d567caefd7189430ebc83b96d7c498', 'The ferry leaves at six', 'travel, hafen', '', '', 'working', 'general', 0.75, 'agent', 's', 0, 'generated', 0, '2024-12-22T15:00:00.000000+00:00', NULL, 0.16499999999999998, '[]', NULL, '2025-02-26T06:46:14.124256+00:00', NULL, '');
