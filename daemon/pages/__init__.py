"""Pages: the window, where a person sees what is remembered and why, corrects it, and answers what waits.

A page is made of replies of operations (`daemon.api.operations`) and of nothing else: it has no way of its own to the
data, and its `.json` are these replies. What a page changes, an operation changes; a row in the ledger says so.
Everything is rendered here, in Jinja2 templates (`html/`). The browser gets htmx, which is
kept in `static/` as its authors published it, and one short script of ours for the keyboard; nothing is built,
nothing is asked of another host. Refused: a client-side framework (a second model of the data), and Markdown
rendered as HTML (memory text is hostile).
"""
