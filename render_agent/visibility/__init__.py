"""What cameras see: objects, surface, the start pose that shows most, measurements at places named in a reply.

Start with `object_visibility.py`.
"""
