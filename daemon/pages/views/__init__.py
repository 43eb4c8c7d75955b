"""Views: a module for each page, what it asks and what can be done there, with its template beside it."""
