-- The groups whose members may be represented at the API, separated by spaces; '' for every user.
ALTER TABLE apis ADD COLUMN required_groups TEXT NOT NULL DEFAULT '';
