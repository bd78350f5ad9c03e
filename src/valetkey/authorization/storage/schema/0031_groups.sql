-- Groups of users. A group may be in another group, which is in none. A deleted group keeps its row,
-- under another name, until its members are swept.
CREATE TABLE user_groups (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    parent_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX user_groups_by_parent ON user_groups (parent_id) WHERE parent_id <> '';
CREATE INDEX user_groups_deleted ON user_groups (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE group_members (
    uid BIGINT NOT NULL,
    group_id TEXT NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (uid, group_id)
);
CREATE INDEX group_members_by_group ON group_members (group_id, uid);
