-- What apps really used of what they may, as resource servers report it; as long as its grant.
CREATE TABLE scope_uses (
    grant_id     TEXT   NOT NULL,
    scope        TEXT   NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (grant_id, scope)
);
CREATE INDEX scope_uses_expiring ON scope_uses (expires_at);

-- The scopes whose use is reported at all, since when without a gap, and when that was last heard.
CREATE TABLE watched_scopes (
    scope    TEXT   PRIMARY KEY,
    since    BIGINT NOT NULL,
    heard_at BIGINT NOT NULL
);
CREATE INDEX watched_scopes_heard ON watched_scopes (heard_at);

-- Accounts that are to be removed, and those that were: of these, the number is all that is left.
CREATE TABLE account_removals (
    uid      BIGINT PRIMARY KEY REFERENCES users (uid),
    asked_at BIGINT NOT NULL,
    due_at   BIGINT NOT NULL,
    done_at  BIGINT
);
CREATE INDEX account_removals_due ON account_removals (due_at) WHERE done_at IS NULL;

-- What goes with an account is found by its person.
CREATE INDEX team_invitations_by ON team_invitations (invited_by);
CREATE INDEX mails_of_people ON mails (uid) WHERE uid IS NOT NULL;
