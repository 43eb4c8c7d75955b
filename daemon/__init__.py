"""When, for whom, and with which concrete things."""
