"""Packed rows where they lie: their columns, shards that are fetched, orders by shards, and rows packed anew."""
