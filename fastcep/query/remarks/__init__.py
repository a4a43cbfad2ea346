"""Warnings about queries that hardly mean what they say."""
