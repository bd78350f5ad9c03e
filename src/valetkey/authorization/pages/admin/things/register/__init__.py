"""Apps in administration: the list, one of them, questions before what matters."""
