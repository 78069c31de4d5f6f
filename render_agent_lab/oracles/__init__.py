"""Oracles: policies and views that know the boxes of a scene, for tests and upper bounds. Start with
`sighted_oracle.py`.
"""
