"""Environment modules as templates, one for each detector family; only `RecipeWriter` reads them."""
