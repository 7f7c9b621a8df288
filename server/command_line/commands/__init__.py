"""The commands. A module is imported when its command runs."""
