-- For which APIs a device asked, with their generations, as JSON; [] for the default API alone.
ALTER TABLE device_codes ADD COLUMN apis TEXT NOT NULL DEFAULT '[]';
