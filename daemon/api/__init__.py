"""The operations on a workspace, and how a call of one is run, by the daemon or in this process."""
