"""Data sets on disk, each a file that yields :class:`semisure.types.Pair`."""
