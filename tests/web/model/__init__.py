"""Random traffic on our connections, judged by another implementation of HTTP/1.1."""
