"""Workers own workspaces while there is work in them."""
