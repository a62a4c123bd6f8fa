"""``python -m dpspec``."""

from dpspec.cli.main import main

main()
