"""What the pages behind emailed links share."""
