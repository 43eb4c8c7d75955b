"""Languages as data: one file of words for each, in tables that `tables` names and `loader` reads."""
