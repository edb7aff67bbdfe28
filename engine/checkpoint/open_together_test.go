package checkpoint

import (
	"path/filepath"
	"sync"
	"testing"
)

// TestOpenTogether opens a state folder repeatedly while another store creates it, as processes on
// hosts without common locks do. A half-created folder must not be mistaken for a folder with other
// files.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	for range 50 {
		dir := filepath.Join(t.TempDir(), "state")
		begun, done := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				<-begun
				for {
					s, err := Open(dir, Options{ReadOnly: true})
					if err != nil {
						t.Error(err)
						return
					}
					_ = s.Close()
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		s := open(t, dir, Options{})
		j := journal(t, s)
		close(begun)
		appendOK(t, j, Entry{ID: "c1", Kind: Measured, Payload: []byte("{}")})
		close(done)
		all.Wait()
	}
}
