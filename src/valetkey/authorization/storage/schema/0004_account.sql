-- What happened to one person, newest first, for the page that tells them.
CREATE INDEX events_of_people ON events (uid, at, id) WHERE uid IS NOT NULL;
