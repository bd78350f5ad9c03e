"""The developer portal: pages on which people register apps and look after them."""
