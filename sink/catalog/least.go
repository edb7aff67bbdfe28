package catalog

import "slices"

// zeroes are the sizes among key columns that may be nothing: no tokens in the
// cache, no window, no multiprocessors set aside, as many key/value heads as
// query heads, no shared experts.
var zeroes = []string{
	"step",
	"window_size",
	"sms",
	"dispatch_sms",
	"num_key_value_heads",
	"num_fused_shared_experts",
	"prefix",
}

// Least is the smallest value that a size in a key can have; ok is false for
// columns that hold no size.
func (c Column) Least() (least int64, ok bool) {
	switch {
	case c.Type != Int64 || c.Role != Key && c.Role != Optional:
		return 0, false
	case slices.Contains(zeroes, c.Name):
		return 0, true
	}
	return 1, true
}
