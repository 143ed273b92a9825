"""The pictures of packed rows.

`references` says what a row tells of a picture, `files` opens it wherever it lies now, and `records` finds the records
that hold bytes of pictures. Begin with `files.PictureFiles`.
"""
