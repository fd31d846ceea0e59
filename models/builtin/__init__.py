"""How the model of the engine ``builtin`` was made: its examples, its training, its evaluation."""
