-- Programs that provision users and groups (SCIM), and what each of them calls these.
CREATE TABLE scim_credentials (
    id             TEXT   PRIMARY KEY,
    name           TEXT   NOT NULL,
    token_print    TEXT   NOT NULL UNIQUE,
    -- The token before the last rotation, which works until then.
    previous_print TEXT   UNIQUE,
    previous_until BIGINT,
    created_at     BIGINT NOT NULL,
    rotated_at     BIGINT,
    last_used_at   BIGINT,
    ended_at       BIGINT
);
CREATE INDEX scim_credentials_ended ON scim_credentials (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX scim_credentials_live ON scim_credentials (created_at, id) WHERE ended_at IS NULL;
-- Counted for lists of users.
CREATE INDEX account_removals_done ON account_removals (done_at) WHERE done_at IS NOT NULL;
CREATE TABLE scim_users (
    credential_id TEXT   NOT NULL,
    uid           BIGINT NOT NULL,
    user_name     TEXT   NOT NULL,
    user_name_key TEXT   NOT NULL,
    external_id   TEXT   NOT NULL,
    PRIMARY KEY (credential_id, uid)
);
CREATE UNIQUE INDEX scim_users_by_name ON scim_users (credential_id, user_name_key);
CREATE UNIQUE INDEX scim_users_by_external_id ON scim_users (credential_id, external_id)
    WHERE external_id <> '';
CREATE INDEX scim_users_by_uid ON scim_users (uid);
CREATE TABLE scim_groups (
    credential_id    TEXT NOT NULL,
    group_id         TEXT NOT NULL,
    display_name     TEXT NOT NULL,
    display_name_key TEXT NOT NULL,
    external_id      TEXT NOT NULL,
    PRIMARY KEY (credential_id, group_id)
);
CREATE UNIQUE INDEX scim_groups_by_name ON scim_groups (credential_id, display_name_key);
CREATE UNIQUE INDEX scim_groups_by_external_id ON scim_groups (credential_id, external_id)
    WHERE external_id <> '';
CREATE INDEX scim_groups_by_group ON scim_groups (group_id);
