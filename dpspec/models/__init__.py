"""What an algorithm may ask, as typed protocols, and the code that a family of algorithms shares."""
