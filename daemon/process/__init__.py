"""Process: runs the daemon under systemd or by hand, with its sockets and signals."""
