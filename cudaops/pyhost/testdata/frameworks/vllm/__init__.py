__version__ = "0.24.0+cu130"
