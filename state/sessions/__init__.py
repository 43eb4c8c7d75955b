"""Session working memory: what an agent keeps in mind now. One item, four policies; pure values and functions.

    open(policy) ─> add ─> admit ─┐                  ┌─> promoted: a crystal, through the outbox
                    get ─> on_access ├─> Plan ─> store ┤
            sweep, clock ─> tick ──┘  (previewed       └─> archived: cold, found by recall, restored as it was
                                      by order)

A policy decides and never acts: it reads an `ItemView` in the order in which items would leave, as far as it must,
and returns a plan; the store carries a plan out in one transaction.
"""
