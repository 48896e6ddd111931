"""Arms against each other over worlds: a plan registered first, runs that resume, one verdict each."""
