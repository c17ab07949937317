"""`python -m jobq`: the command line."""

from jobq.cli import main

if __name__ == "__main__":
    main()
