-- The authorization server's tables, in the subset that SQLite and PostgreSQL share:
-- TEXT and BIGINT, times as whole seconds, identifiers chosen by us, JSON as TEXT
-- that SQL never looks into. Secrets appear as keyed fingerprints or sealed, never in clear.

-- What caches compare before they trust themselves.
CREATE TABLE revision (
    name   TEXT   PRIMARY KEY,
    number BIGINT NOT NULL
);
INSERT INTO revision (name, number) VALUES ('directory', 0);

CREATE TABLE clients (
    id                    TEXT   PRIMARY KEY,
    name                  TEXT   NOT NULL,
    description           TEXT   NOT NULL,
    type                  TEXT   NOT NULL,
    application_type      TEXT   NOT NULL,
    profile               TEXT   NOT NULL,
    access_token_format   TEXT   NOT NULL,
    access_token_lifetime BIGINT,
    authentication_method TEXT   NOT NULL,
    redirect_uris         TEXT   NOT NULL,
    grant_types           TEXT   NOT NULL,
    scope                 TEXT   NOT NULL,
    default_scope         TEXT   NOT NULL,
    required_scope        TEXT   NOT NULL,
    key_set               TEXT   NOT NULL,
    requires_pkce         BIGINT NOT NULL,
    rotates_refresh_token BIGINT NOT NULL,
    ends_with_session     BIGINT NOT NULL,
    logo_uri              TEXT   NOT NULL,
    policy_uri            TEXT   NOT NULL,
    tos_uri               TEXT   NOT NULL,
    created_at            BIGINT NOT NULL,
    changed_at            BIGINT NOT NULL,
    disabled_at           BIGINT
);

CREATE TABLE client_secrets (
    id          TEXT   PRIMARY KEY,
    client_id   TEXT   NOT NULL REFERENCES clients (id),
    fingerprint TEXT   NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    retired_at  BIGINT
);
CREATE INDEX client_secrets_of ON client_secrets (client_id);

-- Secrets that travelled in a URL: how often, when last, and by when they should be changed.
CREATE TABLE query_sightings (
    client_id    TEXT   PRIMARY KEY REFERENCES clients (id),
    requests     BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL
);

-- Every uid ever given, so that none is given twice.
CREATE TABLE uids (
    uid      BIGINT PRIMARY KEY,
    given_at BIGINT NOT NULL
);

CREATE TABLE users (
    uid               BIGINT PRIMARY KEY REFERENCES uids (uid),
    username          TEXT   NOT NULL,
    username_key      TEXT   NOT NULL UNIQUE,
    email             TEXT   NOT NULL,
    email_key         TEXT   NOT NULL UNIQUE,
    email_verified_at BIGINT,
    name              TEXT   NOT NULL,
    created_at        BIGINT NOT NULL,
    changed_at        BIGINT NOT NULL,
    disabled_at       BIGINT
);

CREATE TABLE credentials (
    id         TEXT   PRIMARY KEY,
    uid        BIGINT NOT NULL REFERENCES users (uid),
    kind       TEXT   NOT NULL,
    data       TEXT   NOT NULL,
    last_step  BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);
CREATE INDEX credentials_of ON credentials (uid, kind);
CREATE UNIQUE INDEX one_password ON credentials (uid) WHERE kind = 'password';

CREATE TABLE sessions (
    id           TEXT   PRIMARY KEY,
    fingerprint  TEXT   NOT NULL UNIQUE,
    uid          BIGINT NOT NULL REFERENCES users (uid),
    auth_time    BIGINT NOT NULL,
    methods      TEXT   NOT NULL,
    user_agent   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    ended_at     BIGINT
);
CREATE INDEX sessions_of ON sessions (uid);
CREATE INDEX sessions_expiring ON sessions (expires_at);

CREATE TABLE consents (
    uid        BIGINT NOT NULL REFERENCES users (uid),
    client_id  TEXT   NOT NULL REFERENCES clients (id),
    scope      TEXT   NOT NULL,
    appearance TEXT   NOT NULL,
    given_at   BIGINT NOT NULL,
    PRIMARY KEY (uid, client_id)
);

CREATE TABLE vouchers (
    kind        TEXT   NOT NULL,
    fingerprint TEXT   NOT NULL,
    client_id   TEXT   NOT NULL,
    grant_id    TEXT   NOT NULL,
    payload     TEXT   NOT NULL,
    expires_at  BIGINT NOT NULL,
    redeemed_at BIGINT,
    PRIMARY KEY (kind, fingerprint)
);
CREATE INDEX vouchers_expiring ON vouchers (expires_at);

CREATE TABLE grants (
    id                 TEXT   PRIMARY KEY,
    client_id          TEXT   NOT NULL REFERENCES clients (id),
    uid                BIGINT NOT NULL REFERENCES users (uid),
    session_id         TEXT   NOT NULL,
    scope              TEXT   NOT NULL,
    audience           TEXT   NOT NULL,
    grant_type         TEXT   NOT NULL,
    auth_time          BIGINT NOT NULL,
    created_at         BIGINT NOT NULL,
    last_used_at       BIGINT NOT NULL,
    expires_at         BIGINT NOT NULL,
    refresh_print      TEXT,
    previous_print     TEXT,
    successor          TEXT,
    rotated_at         BIGINT,
    refresh_expires_at BIGINT,
    generation         BIGINT NOT NULL,
    revoked_at         BIGINT,
    revoked_because    TEXT
);
CREATE INDEX grants_of_user ON grants (uid) WHERE revoked_at IS NULL;
CREATE INDEX grants_of_client ON grants (client_id) WHERE revoked_at IS NULL;
CREATE INDEX grants_expiring ON grants (expires_at);

-- Access tokens by reference; those by value exist only at their bearers.
CREATE TABLE access_tokens (
    fingerprint TEXT   PRIMARY KEY,
    id          TEXT   NOT NULL,
    client_id   TEXT   NOT NULL,
    grant_id    TEXT,
    scope       TEXT   NOT NULL,
    audience    TEXT   NOT NULL,
    issued_at   BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    revoked_at  BIGINT
);
CREATE INDEX access_tokens_expiring ON access_tokens (expires_at);

-- What resource servers must refuse although its signature is good.
CREATE TABLE revocations (
    kind       TEXT   NOT NULL,
    subject    TEXT   NOT NULL,
    revoked_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX revocations_since ON revocations (revoked_at, kind, subject);
CREATE INDEX revocations_expiring ON revocations (expires_at);

CREATE TABLE signing_keys (
    kid          TEXT   PRIMARY KEY,
    purpose      TEXT   NOT NULL,
    algorithm    TEXT   NOT NULL,
    period       BIGINT NOT NULL,
    public_jwk   TEXT   NOT NULL,
    sealed       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    activates_at BIGINT NOT NULL,
    retires_at   BIGINT,
    removed_at   BIGINT,
    UNIQUE (purpose, algorithm, period)
);

CREATE TABLE throttles (
    bucket     TEXT   PRIMARY KEY,
    level      BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX throttles_idle ON throttles (changed_at);

CREATE TABLE events (
    id        TEXT   PRIMARY KEY,
    at        BIGINT NOT NULL,
    name      TEXT   NOT NULL,
    client_id TEXT,
    uid       BIGINT,
    grant_id  TEXT,
    data      TEXT   NOT NULL
);
CREATE INDEX events_by_time ON events (at, id);

-- The decision record behind a reference: which check refused, what it expected, what it got.
CREATE TABLE decisions (
    reference   TEXT   PRIMARY KEY,
    at          BIGINT NOT NULL,
    endpoint    TEXT   NOT NULL,
    code        TEXT   NOT NULL,
    checked     TEXT   NOT NULL,
    description TEXT   NOT NULL,
    expected    TEXT   NOT NULL,
    received    TEXT   NOT NULL,
    client_id   TEXT,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX decisions_expiring ON decisions (expires_at);
CREATE INDEX decisions_of_nobody ON decisions (at) WHERE client_id IS NULL;
CREATE INDEX decisions_of_clients ON decisions (at) WHERE client_id IS NOT NULL;
