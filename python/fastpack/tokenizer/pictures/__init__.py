"""Pictures in conversations: the processor that says which tokens stand for a picture."""

from fastpack.tokenizer.pictures.processor import PictureError, PictureProcessor

__all__ = ["PictureError", "PictureProcessor"]
