"""The campaign of attacks: random cases against independent judges, for as long as one likes."""
