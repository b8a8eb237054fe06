"""Certificates: upper bounds on S that hold for every allowed change, not only for those a search tried."""
