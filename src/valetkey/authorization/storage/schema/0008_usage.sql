-- What apps were used for, day by day: counted from the events behind the requests' back.

-- How much of one kind on one day (days since 1970 in UTC). The client "" is all of them together.
CREATE TABLE usage_counts (
    client_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    kind      TEXT   NOT NULL,
    amount    BIGINT NOT NULL,
    PRIMARY KEY (client_id, day, kind)
);
CREATE INDEX usage_counts_by_day ON usage_counts (day);

-- The last day on which a person was active in an app: who was there, and no diary of it.
CREATE TABLE usage_people (
    client_id TEXT   NOT NULL,
    uid       BIGINT NOT NULL,
    last_day  BIGINT NOT NULL,
    PRIMARY KEY (client_id, uid)
);
CREATE INDEX usage_people_lately ON usage_people (client_id, last_day);
CREATE INDEX usage_people_by_day ON usage_people (last_day);
CREATE INDEX usage_people_of ON usage_people (uid);

-- When a client last did something: used a grant type, asked for a scope, left PKCE out.
CREATE TABLE usage_latest (
    client_id TEXT   NOT NULL,
    what      TEXT   NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (client_id, what)
);

-- The last event that was counted: moved in the transaction that counts.
CREATE TABLE usage_cursor (
    name     TEXT   PRIMARY KEY,
    at       BIGINT NOT NULL,
    event_id TEXT   NOT NULL
);
INSERT INTO usage_cursor (name, at, event_id) VALUES ('events', 0, '');

-- The refusals of one client, newest first, for whoever looks after it.
CREATE INDEX decisions_of_client ON decisions (client_id, at, reference)
    WHERE client_id IS NOT NULL;

-- The people who allowed one client something, newest first.
DROP INDEX consents_of_client;
CREATE INDEX consents_of_client ON consents (client_id, given_at, uid);
