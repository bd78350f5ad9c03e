"""The developer portal: teams register, change, try and watch apps of their own."""
