"""Review on a forge: a draft request, what people say about it, answers, and the checks of what landed."""
