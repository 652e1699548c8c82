"""Discretion: policies learned from treatment histories, with a privacy promise that can be checked."""

__version__ = "0.1.0"
