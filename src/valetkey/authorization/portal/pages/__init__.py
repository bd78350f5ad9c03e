"""The developer portal: register apps, configure them and see how they are used."""
