"""Formats: reads transcripts of agents and people into turns, from where they were left.

The content decides the format. Files of records are streamed, so one of any size is read in bounded memory; a
document is read whole.
"""
