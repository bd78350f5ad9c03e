"""Email to users: the messages, their queue and their delivery.

A message is one template. Its first line is the subject; a line with only a URL becomes a link.
"""
