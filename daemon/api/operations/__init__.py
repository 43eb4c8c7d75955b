"""What dreamd does for whoever asks, a module a subject; who needs one of them waits for no other."""
