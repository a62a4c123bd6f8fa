"""Losses of two records: bipartite ranking (the area under the curve), metric and similarity learning."""
