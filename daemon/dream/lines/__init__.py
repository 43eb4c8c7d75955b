"""Lines of MEMORY.md one by one: as they stand with what is known of each, and as their owner changes them."""
