"""labkit: how language-model agents learn, in small tested pieces. Importing it is cheap (no torch)."""

__version__ = "0.1.0"
