"""What a trained entity recognizer does, told to a person: its errors, how sure it is, and what to annotate next."""
