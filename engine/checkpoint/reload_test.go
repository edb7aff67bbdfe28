package checkpoint_test

import (
	"context"
	"fmt"
	"testing"

	"aicplan/engine/checkpoint"
)

// TestJournalIsReadBesideGC checks that a journal that was opened before gc merged its segments can still be
// read: planning takes no lock.
func TestJournalIsReadBesideGC(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jc := checkpoint.Context{Op: "gemm"}
	open := func(readOnly bool) *checkpoint.Store {
		s, err := checkpoint.Open(dir, checkpoint.Options{ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	journal := func(s *checkpoint.Store) *checkpoint.Journal {
		j, err := s.Journal(jc)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	for i := range 3 {
		s := open(false)
		id := fmt.Sprint("case", i)
		if err := journal(s).Append(checkpoint.Entry{ID: id, Kind: checkpoint.Measured, Payload: []byte(id)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	one, some, each, during := journal(open(true)), journal(open(true)), journal(open(true)), journal(open(true))
	n := 0
	for e, err := range during.All() {
		if n++; err != nil || string(e.Payload) != e.ID {
			t.Errorf("entry %q: %v", e.Payload, err)
		}
		if n > 1 {
			continue
		}
		if r, err := open(false).GC(context.Background(), checkpoint.GCOptions{KeepRuns: 1}); err != nil ||
			len(r.Compacted) != 1 {
			t.Fatalf("%v: %+v", err, r)
		}
	}
	if n != 3 {
		t.Errorf("%d entries were read while gc merged the segments, want 3", n)
	}

	if e, ok, err := one.Lookup("case1"); !ok || err != nil || string(e.Payload) != "case1" {
		t.Errorf("lookup: %q, %v, %v", e.Payload, ok, err)
	}
	n = 0
	err := each.Read([]string{"case2", "none", "case0"}, func(at int, e checkpoint.Entry) error {
		if n++; at != 4-2*n || string(e.Payload) != e.ID {
			t.Errorf("read %d: %d %s %q", n, at, e.ID, e.Payload)
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d entries were read (%v), want 2", n, err)
	}
	n = 0
	for e, err := range some.All() {
		if err != nil || string(e.Payload) != e.ID {
			t.Errorf("entry %q: %v", e.Payload, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
}
