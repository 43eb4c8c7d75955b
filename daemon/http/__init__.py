"""The operations over HTTP, at the Unix socket and at the loopback port.

    sockets         the Unix socket (0600, one daemon) and the loopback port
    serve           uvicorn at both, in one event loop, until the daemon stops
    middleware      who may ask: token, Host, Origin, size of the body  (access_policy: the pure decision)
    app             the routes: one for all operations
    calls           one operation: parse the request, work in a thread, reply in one piece or line by line
    openapi         the document that describes all this, made of the same table

One application per listener, over a `DaemonApi`. The core is synchronous and is called in threads (`workers`); the
event loop only moves bytes. Refused: a framework that makes routes of type hints, because the table of operations has
them already; CORS, because no page of another origin has any business here.
"""
