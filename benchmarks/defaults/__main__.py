"""`python -m benchmarks.defaults --help`."""

from benchmarks.defaults.harness import main

if __name__ == "__main__":
    main()
