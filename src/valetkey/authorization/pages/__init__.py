"""What people see: a page is one .py and one .html of the same name."""
