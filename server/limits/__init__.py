"""How much each caller over HTTP may ask for, at once and over time."""
