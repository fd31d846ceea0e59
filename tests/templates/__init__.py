"""The renderer against the families' own chat templates, as packages ship them; run by ``make templates``."""
