package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRefresh: a journal reads the complete frames that other processes append, each once. A store with
// a label reads only its own segments.
func TestRefresh(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := Context{Op: "gemm", Runtime: "cpu"}
	open := func(label string) *Journal {
		s, err := Open(dir, Options{Label: label})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		j, err := s.Journal(c)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	add := func(j *Journal, id string) {
		if err := j.Append(Entry{ID: id, Kind: Measured, Payload: []byte(`{"rows":[{}]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	at := map[*Journal]int{}
	refresh := func(j *Journal, want ...string) {
		t.Helper()
		got, next, err := j.Refresh(at[j])
		at[j] = next
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("refreshed %v (%v), want %v", got, err, want)
		}
	}
	a := open("a")
	add(a, "a1")
	all := open("")
	refresh(all)
	add(a, "a2")
	add(open("b"), "b1")
	refresh(all, "a2", "b1")
	// Another reader of the same journal gets the same entries.
	if got, next, err := all.Refresh(0); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), []string{"a2", "b1"}) || next != 2 {
		t.Errorf("a second reader is given %v and %d (%v)", got, next, err)
	}
	refresh(all)
	refresh(open("a"))
	if _, ok := open("a").Has("b1"); ok {
		t.Error("the store with the label a reads what b wrote")
	}
	// Half a frame is read once it is complete.
	files, err := filepath.Glob(filepath.Join(dir, "journal", "*", "*", "*-b.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	frame := appendFrame(nil, Entry{ID: "b2", Kind: Measured, Payload: []byte(`{"rows":[{}]}`)})
	f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, part := range [][]byte{frame[:7], frame[7:]} {
		if _, err := f.Write(part); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			refresh(all)
		}
	}
	refresh(all, "b2")
	// All entries are found in the order of the files.
	ids := []string{"b2", "a2", "none", "a1", "b1"}
	order := all.InOrder(ids)
	if got := fmt.Sprint(ids[order[len(order)-1]]); got != "none" || len(order) != len(ids) {
		t.Errorf("order %v", order)
	}
	r := all.Reader()
	for _, at := range order[:4] {
		if _, ok, err := r.Lookup(ids[at]); !ok || err != nil {
			t.Errorf("%s: %v, %v", ids[at], ok, err)
		}
	}
}
