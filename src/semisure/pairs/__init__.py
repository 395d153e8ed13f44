"""One pair from images to a result, and many pairs in a store."""
