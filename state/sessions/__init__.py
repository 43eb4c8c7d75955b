"""Session working memory: what an agent keeps in mind now. Pure values and functions.

    add, tick, get ─> policy(View of the set) ─> Plan ─> the store carries it out in one transaction

A policy is a pure function of a list: it gets the items of the set and returns a plan. `order` is the order in which
items would leave, each with its reason; what an event takes is some of that order, and the preview is its beginning.
"""
