"""The model: heads, loss, training and saving."""
