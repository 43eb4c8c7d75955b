"""The operations: all that can be asked of a workspace, and how a call is carried out, by the daemon or here."""
