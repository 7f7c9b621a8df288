"""Rules for what callers send: validation, limits, JSON Schemas, pages, and how times are written."""
