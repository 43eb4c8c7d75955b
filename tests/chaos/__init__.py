"""Break it on purpose, for as long as you like, and look whether anything was lost.

    python -m tests.chaos [--seed N] [--minutes M] [--runs N] [--only KIND] [--run K] [--jobs J]

A *run* copies a workspace in which facts were planted, starts real processes of `dreamd`, breaks something, lets it
recover, and checks what must be so whatever happened (`invariants`). A *kind* of run is an ordeal: a function of a
`Trial`, whose chance is its own: a run is repeated by its seed, its number and its kind.

`harm` breaks a process from inside (killed, stopped, torn or failing at a node or at any change of the disk, SQLite's
own writes among them: `sqlite_disk`); the ordeals break what is outside: files, disks, clocks, models, people.
"""
