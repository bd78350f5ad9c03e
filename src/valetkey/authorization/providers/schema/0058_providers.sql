-- Sign-in providers that administrators added. `sealed` is the client secret; lists are separated by
-- spaces.
CREATE TABLE providers (
    id          TEXT   PRIMARY KEY,
    name        TEXT   NOT NULL,
    kind        TEXT   NOT NULL,
    issuer      TEXT   NOT NULL,
    client_id   TEXT   NOT NULL,
    sealed      TEXT   NOT NULL,
    scopes      TEXT   NOT NULL,
    keep_claims TEXT   NOT NULL,
    sign_up     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    disabled_at BIGINT
);
CREATE UNIQUE INDEX providers_by_issuer ON providers (issuer);
