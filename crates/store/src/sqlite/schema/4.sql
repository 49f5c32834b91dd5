-- Version 4: who appended an entry, as a number, so that an append whose answer was lost is known again. Entries from
-- before, and those that a run was created with, have none.

ALTER TABLE entries ADD COLUMN writer INTEGER;
