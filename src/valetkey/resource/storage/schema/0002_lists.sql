-- Lists in other orders than that of creation, and lists of what has one value in one field
-- (docs/decisions/0007). `list` is `<filter>/<sort>`, `value` what the filtered field holds,
-- `place` what the sorted field holds, both written so that text compares as they do.
CREATE TABLE list_entries (
    owner TEXT NOT NULL,
    kind  TEXT NOT NULL,
    list  TEXT NOT NULL,
    value TEXT NOT NULL,
    place TEXT NOT NULL,
    id    TEXT NOT NULL,
    PRIMARY KEY (owner, kind, list, value, place, id)
);
CREATE INDEX list_entries_by_object ON list_entries (id);
