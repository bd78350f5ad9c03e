-- Whether any client may send unsigned request objects is asked for the metadata.
CREATE INDEX clients_unsigned_requests ON clients (id)
    WHERE disabled_at IS NULL
    AND replace(openid, '"request_object_signing_alg":"none"', '') <> openid;
