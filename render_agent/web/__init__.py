"""What all pages share: templates, style, scripts, and the server that shows them on this machine."""
