-- OpenID Connect: what clients registered for it, what people's records say, and who must hear of
-- a session's end.

-- What a client registered, as one JSON object: read with the client and never searched.
ALTER TABLE clients ADD COLUMN openid TEXT NOT NULL DEFAULT '{}';

-- The secret itself, sealed, for clients that sign with it (client_secret_jwt, HS256).
ALTER TABLE client_secrets ADD COLUMN sealed TEXT;

-- The standard claims, as one JSON object.
ALTER TABLE users ADD COLUMN claims TEXT NOT NULL DEFAULT '{}';

-- The single claims that were allowed, as a JSON array of names.
ALTER TABLE consents ADD COLUMN claims TEXT NOT NULL DEFAULT '[]';

-- The session a grant was given in, how its person had signed in, and the claims request.
ALTER TABLE grants ADD COLUMN sid TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN methods TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN claims TEXT NOT NULL DEFAULT '';

-- The apps that were told of a session by an ID token.
CREATE TABLE participants (
    session_id TEXT   NOT NULL,
    client_id  TEXT   NOT NULL REFERENCES clients (id),
    since      BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, client_id)
);
CREATE INDEX participants_of_client ON participants (client_id);
CREATE INDEX participants_expiring ON participants (expires_at);

-- The outbox: what an app must be told at least once. While a process is at it, the delivery is
-- due again when that process must have finished: a killed one leaves it to the others.
CREATE TABLE deliveries (
    id         TEXT   PRIMARY KEY,
    kind       TEXT   NOT NULL,
    client_id  TEXT   NOT NULL,
    session_id TEXT   NOT NULL,
    uid        BIGINT NOT NULL,
    attempts   BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at);
CREATE INDEX deliveries_of_session ON deliveries (session_id);

-- Clients that registered themselves, and the token by which they manage their registration.
CREATE TABLE registrations (
    client_id      TEXT   PRIMARY KEY REFERENCES clients (id),
    token_print    TEXT   NOT NULL,
    metadata_print TEXT   NOT NULL,
    created_at     BIGINT NOT NULL,
    active_at      BIGINT NOT NULL,
    used           BIGINT NOT NULL,
    removed_at     BIGINT
);
CREATE INDEX registrations_alike ON registrations (metadata_print) WHERE used = 0;
CREATE INDEX registrations_idle ON registrations (active_at) WHERE removed_at IS NULL;
CREATE INDEX registrations_removed ON registrations (removed_at) WHERE removed_at IS NOT NULL;

-- Ids of clients that are gone, so that none is given twice.
CREATE TABLE removed_clients (
    id         TEXT   PRIMARY KEY,
    removed_at BIGINT NOT NULL
);

-- What belongs to a client is looked for when the client goes.
DROP INDEX grants_of_client;
CREATE INDEX grants_of_client ON grants (client_id);
CREATE INDEX consents_of_client ON consents (client_id);

-- Initial access tokens (RFC 7591 section 3): who may register, and how often.
CREATE TABLE invitations (
    token_print TEXT   PRIMARY KEY,
    id          TEXT   NOT NULL,
    note        TEXT   NOT NULL,
    uses_left   BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX invitations_expiring ON invitations (expires_at);
