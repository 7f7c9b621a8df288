"""Who may do what: credentials, the principals that they name, and their rights."""
