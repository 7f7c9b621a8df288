"""What every database must fulfil, as tests that the author of an adapter runs."""
