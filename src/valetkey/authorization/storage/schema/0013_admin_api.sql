-- Tokens with which programs administer this server, each in the name of a person with a role.
CREATE TABLE api_tokens (
    id           TEXT   PRIMARY KEY,
    token_print  TEXT   NOT NULL UNIQUE,
    uid          BIGINT NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
    name         TEXT   NOT NULL,
    permissions  TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    ended_at     BIGINT
);
CREATE INDEX api_tokens_by_time ON api_tokens (created_at, id);
CREATE INDEX api_tokens_of_people ON api_tokens (uid);
CREATE INDEX api_tokens_over ON api_tokens (expires_at);

-- Since when people read that somebody here knows who is behind an application.
ALTER TABLE clients ADD COLUMN verified_at BIGINT;
CREATE INDEX clients_verified ON clients (verified_at) WHERE verified_at IS NOT NULL;

-- The register and the log, newest first, as administrators look through them.
CREATE INDEX clients_by_time ON clients (created_at, id);
CREATE INDEX events_of_clients ON events (client_id, at, id) WHERE client_id IS NOT NULL;
CREATE INDEX events_of_name ON events (name, at, id);
CREATE INDEX events_done_by ON events (done_by, at, id) WHERE done_by <> '';
