"""Changes of MEMORY.md: lines that come and leave, a page that they are made on, and what its owner did."""
