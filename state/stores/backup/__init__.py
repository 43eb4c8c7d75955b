"""Archives of a workspace: written for a backup, read from anybody, with nothing believed unchecked."""
