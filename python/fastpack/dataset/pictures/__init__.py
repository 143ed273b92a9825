"""The pictures of packed rows.

`references` reads the pictures of a row, `files` opens their files in their present places, and `records` finds the
records that hold their bytes. Begin with `files.PictureFiles`.
"""
