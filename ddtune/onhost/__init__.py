"""Programs that run on the host: standard library only, Python 3.9 and newer, shipped as one zipapp."""
