"""The rights of each caller: credentials, the principals that they name, and their rights."""
