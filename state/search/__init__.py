"""Search: reads queries, ranks results, and judges whether a text answers a question."""
