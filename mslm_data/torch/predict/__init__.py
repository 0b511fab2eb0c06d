"""Find mentions with a trained model, and score the model."""
