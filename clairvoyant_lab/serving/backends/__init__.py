"""Backends to work with when no server is at hand: an emulator, and a small real llama.cpp server."""
