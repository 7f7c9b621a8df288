"""What is remembered, laid out for people at a terminal: ``layerlore show``."""
