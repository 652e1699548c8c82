"""The mathematics of privacy: exact amounts, exact noise, and what each release costs."""
