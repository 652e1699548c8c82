"""`python -m discretion` is the command line."""

from discretion.cli import app

app(prog_name="discretion")
