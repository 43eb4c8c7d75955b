"""Process: runs the daemon with its sockets and signals, by hand or as a service of systemd or launchd."""
