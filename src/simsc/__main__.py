"""``python -m simsc``, which ``torchrun -m simsc`` needs."""

from simsc.cli import main

main()
