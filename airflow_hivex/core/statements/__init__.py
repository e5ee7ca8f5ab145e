"""How each kind of statement is run. A session looks its handler up by the statement's type."""
