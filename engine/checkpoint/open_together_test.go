package checkpoint

import (
	"path/filepath"
	"sync"
	"testing"
)

// TestOpenTogether opens a state folder again and again while another store
// makes it, as processes of hosts do that see no lock of each other: what is begun
// is not taken for a folder of something else.
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
