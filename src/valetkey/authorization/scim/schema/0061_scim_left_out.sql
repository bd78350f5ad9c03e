-- What a directory sent last and could not be kept, and how it marked the values that were.
ALTER TABLE scim_users ADD COLUMN left_out TEXT NOT NULL DEFAULT '';
ALTER TABLE scim_users ADD COLUMN marks TEXT NOT NULL DEFAULT '{}';
ALTER TABLE scim_groups ADD COLUMN left_out TEXT NOT NULL DEFAULT '';
CREATE INDEX scim_users_left_out ON scim_users (credential_id, uid) WHERE left_out <> '';
CREATE INDEX scim_groups_left_out ON scim_groups (credential_id, group_id) WHERE left_out <> '';
