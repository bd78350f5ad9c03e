-- Whose an app is: who registered it, and whom they let in.
CREATE TABLE memberships (
    client_id TEXT   NOT NULL REFERENCES clients (id),
    uid       BIGINT NOT NULL REFERENCES users (uid),
    role      TEXT   NOT NULL,
    since     BIGINT NOT NULL,
    PRIMARY KEY (client_id, uid)
);
CREATE INDEX memberships_of ON memberships (uid, since);

-- Who may register apps where that is by invitation.
CREATE TABLE developers (
    uid   BIGINT PRIMARY KEY REFERENCES users (uid),
    since BIGINT NOT NULL
);

-- Who is asked into a team. `invited` is what the owner wrote; it is answered alike whether there
-- is such a person or not, and `uid` is there where this account alone may accept.
CREATE TABLE team_invitations (
    id          TEXT   PRIMARY KEY,
    token_print TEXT   NOT NULL UNIQUE,
    client_id   TEXT   NOT NULL REFERENCES clients (id),
    role        TEXT   NOT NULL,
    invited     TEXT   NOT NULL,
    email_key   TEXT   NOT NULL,
    uid         BIGINT,
    invited_by  BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);
CREATE INDEX team_invitations_to ON team_invitations (client_id, created_at);
CREATE INDEX team_invitations_for ON team_invitations (uid) WHERE uid IS NOT NULL;
CREATE INDEX team_invitations_expiring ON team_invitations (expires_at);

-- When a secret was last good for something, noted once an hour; its last letters, to know it by.
ALTER TABLE client_secrets ADD COLUMN last_used_at BIGINT;
ALTER TABLE client_secrets ADD COLUMN ending TEXT NOT NULL DEFAULT '';

-- Apps that were deleted: their rows go a while later, when nothing is under way any more.
CREATE TABLE removals (
    client_id  TEXT   PRIMARY KEY REFERENCES clients (id),
    removed_at BIGINT NOT NULL
);
CREATE INDEX removals_due ON removals (removed_at);
