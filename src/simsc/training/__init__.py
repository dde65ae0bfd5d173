"""Training: the paper's recipe, resumable at any moment, in one process or many."""
