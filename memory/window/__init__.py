"""What of a thread goes to the model: policies, and the views of a thread that they give. Pure: nothing here reads or
writes, and no message is ever lost by it."""
