"""Lines of MEMORY.md one by one."""
