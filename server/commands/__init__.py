"""What the commands of the command line do, a module each."""
