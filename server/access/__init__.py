"""Who may do what: principals and their rights, the credentials that name them, and how much they may ask for."""
