"""Drawing: the seam, the renderers behind it, and the kinds of view made from their frames."""
