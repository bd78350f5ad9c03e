-- The object that an event is about, such as 'group:gr_1', found by an index. Users and apps have columns
-- of their own. It repeats what `data` has, and so is outside the hash chain; events of before have none.
ALTER TABLE events ADD COLUMN subject TEXT;
CREATE INDEX events_by_subject ON events (subject, at, id) WHERE subject IS NOT NULL;
