-- A grant for an API says so in its scope, as `api_id#` where none of the API's scopes was allowed.
-- Before, scopes about the user were enough at an API that declares none: those grants keep it.
UPDATE grants SET scope = scope || ' ' || (
    SELECT string_agg(a.api_id || '#', ' ') FROM grant_apis a JOIN apis p ON p.id = a.api_id
    WHERE a.grant_id = grants.id AND a.generation = p.generation
    AND NOT EXISTS (SELECT 1 FROM api_scopes s WHERE s.api_id = p.id AND s.sentence <> '')
)
WHERE id IN (
    SELECT a.grant_id FROM grant_apis a JOIN apis p ON p.id = a.api_id
    WHERE a.generation = p.generation
    AND NOT EXISTS (SELECT 1 FROM api_scopes s WHERE s.api_id = p.id AND s.sentence <> '')
)
AND (
    ' ' || scope || ' ' LIKE '% openid %' OR ' ' || scope || ' ' LIKE '% profile %'
    OR ' ' || scope || ' ' LIKE '% email %' OR ' ' || scope || ' ' LIKE '% address %'
    OR ' ' || scope || ' ' LIKE '% phone %' OR ' ' || scope || ' ' LIKE '% groups %'
    OR ' ' || scope || ' ' LIKE '% offline_access %'
);
