"""Text: words, sentences, chunks and spellings of any language, for all other packages."""
