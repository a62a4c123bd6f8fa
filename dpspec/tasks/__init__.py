"""Kinds of question, one file each, found by file name: what an algorithm may ask, how an answer is measured."""
