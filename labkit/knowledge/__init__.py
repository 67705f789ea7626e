"""What a model knows: facts, questions about them, knowledge categories, and a world made to order."""
