-- APIs that tokens are for, beside the operator's own. `key` is how identifiers are compared; the
-- credential of an API is the client of the same id.
CREATE TABLE apis (
    id                    TEXT   PRIMARY KEY,
    key                   TEXT   NOT NULL UNIQUE,
    identifier            TEXT   NOT NULL,
    name                  TEXT   NOT NULL,
    access_token_format   TEXT   NOT NULL,
    access_token_lifetime BIGINT,
    signing_algorithm     TEXT   NOT NULL,
    clients               TEXT,
    shares_scopes         BIGINT NOT NULL,
    created_at            BIGINT NOT NULL,
    changed_at            BIGINT NOT NULL,
    disabled_at           BIGINT,
    generation            BIGINT NOT NULL
);

-- The scopes of an API in its order. Without a sentence only clients have them, of their own.
CREATE TABLE api_scopes (
    api_id   TEXT   NOT NULL REFERENCES apis (id) ON DELETE CASCADE,
    name     TEXT   NOT NULL,
    place    BIGINT NOT NULL,
    sentence TEXT   NOT NULL,
    machine  BIGINT NOT NULL,
    PRIMARY KEY (api_id, name)
);
CREATE INDEX api_scopes_called ON api_scopes (name);

-- For which APIs a grant was given, in the order of the request and in which generation of each; -1
-- once that has been ended. '' is the default API; a grant for that alone has no rows.
CREATE TABLE grant_apis (
    grant_id   TEXT   NOT NULL REFERENCES grants (id) ON DELETE CASCADE,
    api_id     TEXT   NOT NULL,
    place      BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    PRIMARY KEY (grant_id, api_id)
);
CREATE INDEX grant_apis_of ON grant_apis (api_id, generation);

-- For which API a revoked token was issued; '' for other kinds.
ALTER TABLE revocations ADD COLUMN audience TEXT NOT NULL DEFAULT '';
