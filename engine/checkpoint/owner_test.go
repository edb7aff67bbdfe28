package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"aicplan/engine/checkpoint"
)

// TestOpenRefusesTheFolderOfAnotherUser checks that a state folder of another user is used
// only if the caller allows it: its rows would count as measured.
func TestOpenRefusesTheFolderOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Skip("only root can give a folder to another user")
	}

	for _, readOnly := range []bool{false, true} {
		var foreign *checkpoint.ForeignError
		if _, err := checkpoint.Open(dir, checkpoint.Options{ReadOnly: readOnly}); !errors.As(err, &foreign) {
			t.Errorf("read only %v: %v", readOnly, err)
		}
		if _, err := checkpoint.Open(dir, checkpoint.Options{ReadOnly: readOnly, Foreign: true}); err != nil {
			t.Errorf("allowed, read only %v: %v", readOnly, err)
		}
	}
}
