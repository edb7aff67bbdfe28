package plan

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestSavedIDsAreBounded(t *testing.T) {
	t.Parallel()
	// A frame that says to hold a terabyte.
	huge := "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00"
	for text, want := range map[string]string{
		base64.StdEncoding.EncodeToString([]byte(huge)): "damaged: decompressed size exceeds",
		"!": "damaged: illegal base64",
		base64.StdEncoding.EncodeToString([]byte("\x28\xb5\x2f\xfd\x04\x00\x09\x00\x00\x01\xfd\x1b\x06\xe7")): "damaged",
	} {
		ids, err := SavedStage{IDs: text}.ids()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%d ids, %v; want %q", len(ids), err, want)
		}
	}
}
