"""Archives of a workspace: written for a backup, and read with every part checked, whoever made them."""
