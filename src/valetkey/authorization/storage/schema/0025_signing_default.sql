-- ID tokens of clients that chose no algorithm are signed with RS256 from now on. Clients registered
-- before keep ES256, which their apps may be configured for.
UPDATE clients SET openid = '{"id_token_signed_response_alg":"ES256"}'
WHERE openid = '{}' AND id <> 'resource-server';
