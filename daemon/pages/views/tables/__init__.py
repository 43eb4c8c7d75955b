"""Tables: the pages of what there is much of: crystals, sessions, questions, skills, hormones; and of one of each."""
