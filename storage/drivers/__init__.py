"""The databases: a folder for each, which opens it, runs transactions on it, and does in its own way what differs. The
migrations of both lie beside them."""
