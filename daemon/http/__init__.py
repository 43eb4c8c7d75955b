"""The daemon's HTTP: the operations, and what is known of the daemon, at two doors.

    listening   the Unix socket (0600, one daemon) and the loopback port
    serving     uvicorn at both, in one event loop, until it is told to stop
    guard       who may come in: token, Host, Origin, the size of a body   (doors: the decision, a pure function)
    app         the routes
    answering   one operation: read what is asked, work in a thread, answer in one piece or line by line
    openapi     the document that says all this, made of the same table

One application per door, over a `DaemonApi`. The core is synchronous and is called in threads (`workers`); the event
loop only moves bytes. Refused: a framework that makes routes of type hints, because the table of operations has them
already; CORS, because no page of another origin has any business here.
"""
