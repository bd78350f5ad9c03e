-- What each file of `valetkey apply` declared: objects, memberships and roles that it created or
-- adopted. `part` names the member or the role, '' for the object itself. What was disabled because
-- its file no longer declares it has a `pruned_at`.
CREATE TABLE applied (
    kind      TEXT   NOT NULL,
    id        TEXT   NOT NULL,
    part      TEXT   NOT NULL,
    file      TEXT   NOT NULL,
    pruned_at BIGINT,
    PRIMARY KEY (kind, id, part)
);
CREATE INDEX applied_by_file ON applied (file, kind, id, part);
