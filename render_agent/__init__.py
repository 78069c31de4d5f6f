"""A vision-language model explores a 3D scan through rendered views and answers spatial questions."""
