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

	one, some, each := journal(open(true)), journal(open(true)), journal(open(true))
	if r, err := open(false).GC(context.Background(), checkpoint.GCOptions{KeepRuns: 1}); err != nil || len(r.Compacted) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}

	if e, ok, err := one.Lookup("case1"); !ok || err != nil || string(e.Payload) != "case1" {
		t.Errorf("lookup: %q, %v, %v", e.Payload, ok, err)
	}
	if e, ok, err := each.Reader().Lookup("case2"); !ok || err != nil || string(e.Payload) != "case2" {
		t.Errorf("reader: %q, %v, %v", e.Payload, ok, err)
	}
	n := 0
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
