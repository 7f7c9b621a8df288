"""What each command takes on the command line."""
