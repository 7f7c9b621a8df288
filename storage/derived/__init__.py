"""Rows made from messages: observations, summaries, notes, working memory and entries, with the messages that each came
from."""
