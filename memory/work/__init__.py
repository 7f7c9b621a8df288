"""The work of an agent in a thread: plan, attempts, runs, steps and events."""
