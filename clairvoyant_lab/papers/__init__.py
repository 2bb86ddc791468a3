"""Both papers' numbers as data, our re-runs of them, and the ledger that sets one beside the other."""
