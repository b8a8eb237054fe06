"""The verb `sensitivity`: the sup over positions and allowed changes, with its lower and upper bounds."""
