"""Files of object boxes from other programs and from people, recognised by content; docs/reference/boxes.md lists them."""
