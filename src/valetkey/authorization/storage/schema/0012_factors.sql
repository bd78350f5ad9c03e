-- Second factors: passkeys, authenticator apps, recovery codes; and browsers that are remembered.

-- Passkeys have names. `handle` is by what a credential is found: the id of a passkey, the keyed
-- fingerprint of a recovery code.
ALTER TABLE credentials ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE credentials ADD COLUMN handle TEXT;
ALTER TABLE credentials ADD COLUMN last_used_at BIGINT;
CREATE UNIQUE INDEX credentials_by_handle ON credentials (kind, handle) WHERE handle IS NOT NULL;
CREATE UNIQUE INDEX one_authenticator ON credentials (uid) WHERE kind = 'totp';

-- When and how the person of a session last proved who they are; and the remembered device that
-- spared them the second factor.
ALTER TABLE sessions ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN proved_by TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN device_id TEXT NOT NULL DEFAULT '';

-- Browsers in which the second factor is not asked for. The cookie changes with every use; the one
-- before it is good for a moment longer, and whoever comes with it later has copied it.
CREATE TABLE remembered_devices (
    id           TEXT   PRIMARY KEY,
    uid          BIGINT NOT NULL REFERENCES users (uid),
    fingerprint  TEXT   NOT NULL,
    previous     TEXT   NOT NULL DEFAULT '',
    changed_at   BIGINT NOT NULL,
    user_agent   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX remembered_devices_of ON remembered_devices (uid);
CREATE INDEX remembered_devices_expiring ON remembered_devices (expires_at);
