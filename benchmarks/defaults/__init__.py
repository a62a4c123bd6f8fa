"""How good the defaults are: :mod:`benchmarks.defaults.harness` measures, one file a family names laws and grids."""
