"""A scripted model behind the real API's address: an HTTP server on 127.0.0.1."""
