"""Budgets that outlive a process: accounts with limits, reservations before the first draw, and totals recomputed from schedules."""
