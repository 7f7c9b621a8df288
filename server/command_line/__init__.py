"""The command line for people: one file a command."""
