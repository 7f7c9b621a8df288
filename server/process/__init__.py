"""The process: its streams, its logs, its end, and what it takes from the SDK."""
