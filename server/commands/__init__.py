"""The arguments of each command on the command line."""
