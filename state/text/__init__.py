"""Text: words, sentences, chunks and spellings of any language, for every other room."""
