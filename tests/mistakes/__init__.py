"""Catalogue of mistakes that a user can make, with the stored message of each and its grade."""
