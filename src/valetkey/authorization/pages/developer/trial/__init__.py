"""What gets an app going: requests to paste, and the flow tried step by step."""
