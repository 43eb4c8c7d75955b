"""What happens in a dream."""
