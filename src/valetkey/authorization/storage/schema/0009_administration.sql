-- Sessions in which somebody entered the pages of administration, with a cookie of its own.
CREATE TABLE administrations (
    session_id   TEXT   PRIMARY KEY,
    fingerprint  TEXT   NOT NULL,
    entered_at   BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX administrations_expiring ON administrations (expires_at);

-- Taken by whoever changes who the owners are: one at a time, so that one of them is always left.
CREATE TABLE turns (
    name  TEXT   PRIMARY KEY,
    taken BIGINT NOT NULL
);
INSERT INTO turns (name, taken) VALUES ('owners', 0);

-- The words by which people are found: folded, in hexadecimal digits of their UTF-8, which every
-- collation sorts alike, so that all words that begin alike are neighbours.
CREATE TABLE people_words (
    word TEXT   NOT NULL,
    uid  BIGINT NOT NULL REFERENCES users (uid) ON DELETE CASCADE,
    PRIMARY KEY (word, uid)
);
CREATE INDEX people_words_of ON people_words (uid);

-- How far the people of before this file are in it: a uid.
INSERT INTO turns (name, taken) VALUES ('people_words', 0);

-- People as they are listed, newest first.
CREATE INDEX users_by_time ON users (created_at, uid);
CREATE INDEX users_disabled ON users (created_at, uid) WHERE disabled_at IS NOT NULL;
CREATE INDEX users_unverified ON users (created_at, uid) WHERE email_verified_at IS NULL;

-- How long answers took, hour by hour (hours since 1970): so many of one outcome within so many
-- milliseconds.
CREATE TABLE answer_times (
    hour    BIGINT NOT NULL,
    outcome TEXT   NOT NULL,
    within  BIGINT NOT NULL,
    amount  BIGINT NOT NULL,
    PRIMARY KEY (hour, outcome, within)
);
