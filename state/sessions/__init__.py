"""Session working memory: what an agent keeps in mind now, as pure values and functions.

    add, tick, get ─> policy(View of the set) ─> Plan ─> the store carries it out in one transaction

A policy is a pure function from the items of the set to a plan. `order` lists the items in the order in which they
would leave, each with its reason. An event removes some of that list, and the preview shows its beginning.
"""
