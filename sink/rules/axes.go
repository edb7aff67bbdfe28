package rules

// Axes are the columns along which work grows, in the order in which they are looked at.
var Axes = []string{"batch_size", "isl", "m", "num_tokens", "num_token", "step", "seq_len", "message_size"}
