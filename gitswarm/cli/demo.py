def demo() -> None:
    """Soon"""
