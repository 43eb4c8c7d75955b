"""Archives of a workspace: written as a backup, and read with every part checked, whoever made them."""
