"""The server that all of a person's hosts on this machine share."""
