"""Files of a workspace: durable changes, its paths, and the lock that makes one process its writer."""
