"""Editors of agents' configuration files, pure functions of a text: all that is not changed stays byte for byte.

They are the project's own. On PyPI there are parsers of JSON with comments that lose the comments, but no editor. Of
tomlkit 0.15.2 nine usual files were asked to take in a table and to give it back: one came back as it was, an inline
table was refused, and new lines in a file with CRLF had none.
"""
