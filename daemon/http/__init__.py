"""The operations over HTTP, at the Unix socket and at the loopback port.

    sockets         the Unix socket (0600, one daemon) and the loopback port
    serve           uvicorn at both, in one event loop, until the daemon stops
    middleware      access control: token, Host, Origin, size of the body  (access_policy: the pure decision)
    app             the routes: one for all operations
    calls           one operation: parse the request, run it in a thread, reply in one piece or line by line
    openapi         the document that describes all this, generated from the table of operations

Each listener has its own application over one `DaemonApi`. The core is synchronous and runs in threads (`workers`);
the event loop only moves bytes. Refused: a framework that derives routes from type hints, because the table of
operations has them already, and CORS, because no page of another origin has any business here.
"""
