"""Events in administration: searched, filtered, taken away."""
