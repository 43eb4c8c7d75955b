"""Operations: what dreamd offers, one module per subject."""
