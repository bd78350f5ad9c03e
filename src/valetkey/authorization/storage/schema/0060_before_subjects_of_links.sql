-- Whose link or code a voucher is: each kind has at most one for each subject, the newest.
ALTER TABLE vouchers ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX vouchers_by_subject ON vouchers (kind, subject) WHERE subject IS NOT NULL;
