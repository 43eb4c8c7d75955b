"""Tables: operations that answer with a part of a list, filtered and sorted, and with all about one row."""
