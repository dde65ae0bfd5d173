"""``python -m simsc``, which ``torchrun -m simsc`` needs."""

from simsc.cli import main

if __name__ == "__main__":  # processes that a command starts import this module too
    main()
