-- Who people are at other servers at which they may sign in; by what the issuer never says twice.
CREATE TABLE identities (
    issuer       TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    uid          BIGINT NOT NULL REFERENCES users (uid),
    shown        TEXT   NOT NULL,
    linked_at    BIGINT NOT NULL,
    last_used_at BIGINT,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_of ON identities (uid);
