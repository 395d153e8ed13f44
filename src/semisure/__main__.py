"""`python -m semisure`: the command, where its script is not on the path."""

from semisure.cli import main

if __name__ == "__main__":
    main()
