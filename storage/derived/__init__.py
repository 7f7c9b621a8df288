"""What is made of messages: observations, summaries, notes, working memory and entries, with the messages that each came
from."""
