package checkpoint

import (
	"testing"
)

// A withdrawn case stays invalid in this process, in the next one, and after gc. A failure does not
// restore it.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Context{Op: "gemm", Runtime: "cpu"}
	with := func(what string, f func(*Store, *Journal)) {
		t.Helper()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(what, err)
		}
		defer s.Close()
		j, err := s.Journal(c)
		if err != nil {
			t.Fatal(what, err)
		}
		f(s, j)
	}
	add := func(j *Journal, id string, k Kind, payload string) {
		t.Helper()
		if err := j.Append(Entry{ID: id, Kind: k, Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	see := func(what string, j *Journal, id string, want Kind) {
		t.Helper()
		kind, ok := j.Has(id)
		if ok != (want != 0) || kind != want {
			t.Errorf("%s: %s is %v, %v; want %v", what, id, kind, ok, want)
		}
		if _, found, err := j.Lookup(id); found != ok || err != nil {
			t.Errorf("%s: Lookup of %s: %v, %v", what, id, found, err)
		}
	}
	with("first", func(_ *Store, j *Journal) {
		for _, id := range []string{"a", "b", "c"} {
			add(j, id, Measured, "old")
		}
		if err := j.Withdraw([]string{"a", "b"}, "e1"); err != nil {
			t.Fatal(err)
		}
		see("at once", j, "a", 0)
		add(j, "b", Failed, "it failed")
	})
	check := func(what string, j *Journal) {
		t.Helper()
		see(what, j, "a", 0)
		see(what, j, "b", Failed)
		see(what, j, "c", Measured)
		if j.Len() != 2 || j.counts[Measured] != 1 || j.counts[Failed] != 1 {
			t.Errorf("%s: %d cases, %d measured, %d failed", what, j.Len(), j.counts[Measured], j.counts[Failed])
		}
		for id, want := range map[string]struct {
			token string
			open  bool
		}{"a": {"e1", true}, "b": {"e1", false}, "c": {"", false}, "d": {"", false}} {
			if token, open := j.Epoch(id); token != want.token || open != want.open {
				t.Errorf("%s: epoch of %s is %q, %v; want %v", what, id, token, open, want)
			}
		}
		n := 0
		for e, err := range j.All() {
			if n++; err != nil || e.ID == "a" {
				t.Errorf("%s: All yields %v, %v", what, e.ID, err)
			}
		}
		if n != 2 {
			t.Errorf("%s: All yields %d entries", what, n)
		}
	}
	with("reopened", func(_ *Store, j *Journal) { check("reopened", j) })
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		rep, err := s.GC(t.Context(), GCOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range rep.Compacted {
			if c.After > c.Before {
				t.Errorf("gc made %d bytes of %d", c.After, c.Before)
			}
		}
	}
	list, err := s.List()
	if err != nil || len(list.Journals) != 1 || list.Journals[0].Measured != 1 || list.Journals[0].Failed != 1 {
		t.Errorf("listed %+v, %v", list.Journals, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	with("after gc", func(_ *Store, j *Journal) {
		check("after gc", j)
		add(j, "a", Measured, "new")
		if e, ok, err := j.Lookup("a"); !ok || err != nil || string(e.Payload) != "new" {
			t.Errorf("measured again: %q, %v, %v", e.Payload, ok, err)
		}
		if token, open := j.Epoch("a"); token != "e1" || open {
			t.Errorf("measured again: epoch %q, %v", token, open)
		}
	})
}

// TestJournalReadsOtherContexts: entries of the other context are valid unless the journal has or
// withdrew the case itself, also after gc.
func TestJournalReadsOtherContexts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, now := Context{Op: "gemm", Runtime: "cpu"}, Context{Op: "gemm", Runtime: "cpu",
		Extra: map[string]any{"source": "a.py 1"}}
	open := func() (*Store, *Journal) {
		t.Helper()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.Journal(now, old)
		if err != nil {
			t.Fatal(err)
		}
		return s, j
	}
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Journal(old)
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range map[string]string{"a": "mine", "b": "mine"} {
		if err := j.Append(Entry{ID: id, Kind: Measured, Payload: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, j = open()
	if j.Len() != 2 {
		t.Errorf("%d cases of the other context count, want 2", j.Len())
	}
	if err := j.Append(Entry{ID: "b", Kind: Measured, Payload: []byte("today's")}); err != nil {
		t.Fatal(err)
	}
	if err := j.Withdraw([]string{"a"}, "e"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(t.Context(), GCOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, j = open()
	defer s.Close()
	if _, ok := j.Has("a"); ok {
		t.Error("gc restored a withdrawn case of the other context")
	}
	if e, ok, err := j.Lookup("b"); !ok || err != nil || string(e.Payload) != "today's" {
		t.Errorf("b is %q, %v, %v", e.Payload, ok, err)
	}
	if n := j.Len(); n != 1 {
		t.Errorf("%d cases, want 1", n)
	}
}
