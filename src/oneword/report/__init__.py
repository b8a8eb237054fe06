"""What a person sees: figures, terminal and notebook tables. Reads tables; knows nothing of torch or of maps."""
