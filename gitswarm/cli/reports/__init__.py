"""`report`: a run on one page, for who reviews it."""
