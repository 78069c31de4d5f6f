"""Figures of whole dialogues: answers over turns and images, views reached, and the use of instruments."""
