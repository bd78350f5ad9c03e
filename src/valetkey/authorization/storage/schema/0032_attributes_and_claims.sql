-- What an operator declares of accounts and of tokens: attributes and claims, as JSON.
CREATE TABLE declarations (
    kind        TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    declaration TEXT   NOT NULL,
    changed_at  BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
);

-- The values of the declared attributes of an account, as JSON.
ALTER TABLE users ADD COLUMN attributes TEXT NOT NULL DEFAULT '{}';

-- The names of the roles that an API declares, separated by spaces, and who has which. Roles of users
-- and of groups; those that the API does not declare any more count nothing.
ALTER TABLE apis ADD COLUMN roles TEXT NOT NULL DEFAULT '';
CREATE TABLE user_roles (
    uid    BIGINT NOT NULL,
    api_id TEXT   NOT NULL REFERENCES apis (id) ON DELETE CASCADE,
    role   TEXT   NOT NULL,
    PRIMARY KEY (uid, api_id, role)
);
CREATE INDEX user_roles_by_api ON user_roles (api_id, role, uid);
CREATE TABLE group_roles (
    group_id TEXT NOT NULL,
    api_id   TEXT NOT NULL REFERENCES apis (id) ON DELETE CASCADE,
    role     TEXT NOT NULL,
    PRIMARY KEY (group_id, api_id, role)
);
CREATE INDEX group_roles_by_api ON group_roles (api_id, role, group_id);

-- The declared claims in a token by reference, as JSON; '' for none.
ALTER TABLE access_tokens ADD COLUMN claims TEXT NOT NULL DEFAULT '';
