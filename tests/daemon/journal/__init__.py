"""Tests of the room that explains a memory."""
