"""What another package may add to simsc, one file each."""
