package plan

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestStaleReasons: what people read of a difference between two inputs.
func TestStaleReasons(t *testing.T) {
	for _, c := range []struct{ old, now, want string }{
		{`{"version":1,"config":{}}`, `{"version":2,"config":{}}`,
			"this aicplan works the stage out in another way (version 1 -> 2)"},
		{`{"version":1,"config":{"file":"a"}}`, `{"version":1,"config":{"file":"b"}}`, "file"},
		{`{"config":{}}`, `{"config":{}}`, "the form of the checkpoint changed"},
	} {
		got := staleReason(json.RawMessage(c.old), json.RawMessage(c.now))
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s -> %s: %q, want %q", c.old, c.now, got, c.want)
		}
	}
}
