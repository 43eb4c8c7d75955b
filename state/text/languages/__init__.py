"""Languages as data: one file of words per language, which `loader` reads."""
