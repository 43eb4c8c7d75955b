"""What tests share: processes, models that are scripted, worlds that are built and broken."""
