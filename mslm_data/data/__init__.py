"""Types that every room shares: documents, examples, ragged arrays and the columns of a shard."""
