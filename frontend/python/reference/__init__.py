"""The pages of the manual that are written from sources: the Python API, the command lines, the dialect."""
