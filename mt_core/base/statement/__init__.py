"""What terminals and pages recognize in the text of a statement without parsing it."""
