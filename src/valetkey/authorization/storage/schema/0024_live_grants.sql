-- Grants that neither were revoked nor ended with their client, user, app or session. They also end
-- with time: at `ends_at`, their own or their session's.
CREATE VIEW live_grants AS
SELECT g.id, g.client_id, g.uid, g.session_id, g.scope, g.audience, g.grant_type, g.auth_time,
       g.created_at, g.last_used_at, g.expires_at, g.refresh_print, g.refresh_expires_at,
       g.generation, g.revoked_at, g.revoked_because, g.sid, g.methods, g.claims,
       CASE WHEN s.expires_at < g.expires_at THEN s.expires_at ELSE g.expires_at END AS ends_at
FROM grants g
JOIN users u ON u.uid = g.uid AND u.generation = g.user_generation
JOIN clients c ON c.id = g.client_id AND c.generation = g.client_generation
LEFT JOIN sessions s ON s.id = g.session_id
WHERE g.revoked_at IS NULL
  AND (g.session_id = '' OR (s.ended_at IS NULL AND s.generation = u.session_generation))
  AND NOT EXISTS (SELECT 1 FROM app_generations a WHERE a.uid = g.uid
                  AND a.client_id = g.client_id AND a.generation <> g.app_generation);
