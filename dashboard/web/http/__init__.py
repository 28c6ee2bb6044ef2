"""The web server: connections, access, events, the page's own files."""
