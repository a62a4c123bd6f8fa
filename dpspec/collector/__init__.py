"""The server of a plan of the local model: what clients are given, and what becomes of their reports.

``export`` writes the client file, ``intake`` reads reports, ``store`` keeps their sums, ``closing`` makes the record of a release of them,
``service`` takes them over HTTP.
"""
