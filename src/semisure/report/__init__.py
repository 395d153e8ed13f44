"""Reports for people: pages, plots, documents."""
