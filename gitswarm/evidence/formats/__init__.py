"""One reader per kind of test output: text in, what it says out. A reader answers None to what it does not know."""
