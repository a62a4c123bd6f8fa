"""Policy as code: the rules of a team, read strictly, and what of them a plan breaks."""
