-- A search finds a word by its beginning from any of its letters on. This turn counts up to which uid the
-- existing users have these parts in people_words; the one named 'people_words' is no longer read.
INSERT INTO turns (name, taken) VALUES ('word_parts', 0);
