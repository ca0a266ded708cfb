"""Files that people send: pictures, voices and documents, read within bounds."""
