"""The graph of a dream: its nodes, the guards on what may be written, and the synthesis without a model."""
