"""Rows with pictures to the tensors of one batch: pixels, grids, and positions in three dimensions."""

from fastpack.torch.pictures.collator import PictureCollator

__all__ = ["PictureCollator"]
