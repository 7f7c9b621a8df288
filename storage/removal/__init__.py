"""Taking away: deleting and restoring, erasing for good, masking secrets, and the expiry of what was deleted."""
