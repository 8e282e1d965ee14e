"""`tokenmill doctor`: what is wrong with this machine and set-up."""
