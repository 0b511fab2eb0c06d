"""What the manual's pages are made of, besides the pages themselves."""
