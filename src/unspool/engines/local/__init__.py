"""GGUF files, run by llama.cpp (the extra ``local``) in a supervised child process."""

from .engine import Local
from .process import Address, Launch, LlamaProcess, Status

__all__ = ["Address", "Launch", "LlamaProcess", "Local", "Status"]
