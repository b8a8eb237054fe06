"""What may change: balls and spheres of vectors, vocabularies and lists of words."""
