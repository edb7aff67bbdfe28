def token_counts():
    return [1, 2, 4]
