"""Attribution: tells whether a new line is made of the agent's and owner's words or of a stranger's."""
