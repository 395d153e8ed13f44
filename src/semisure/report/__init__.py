"""What people read: pages, plots, documents."""
