package checkpoint

import (
	"os"
	"path/filepath"
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
	versions := map[*Journal]int{}
	refresh := func(j *Journal, want ...string) {
		t.Helper()
		before := j.Len()
		version, err := j.Refresh()
		changed := version != versions[j]
		versions[j] = version
		if err != nil || changed != (len(want) > 0) || j.Len() != before+len(want) {
			t.Errorf("refreshed: changed %v, %d more entries (%v), want %v", changed, j.Len()-before, err, want)
		}
		for _, id := range want {
			if e, ok, err := j.Lookup(id); !ok || err != nil || e.ID != id {
				t.Errorf("%s: %v, %v", id, ok, err)
			}
		}
	}
	a := open("a")
	add(a, "a1")
	all := open("")
	refresh(all)
	add(a, "a2")
	add(open("b"), "b1")
	refresh(all, "a2", "b1")
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
}

// TestStaleAfterAppend: a journal is stale once another process has added to a segment that it has read.
func TestStaleAfterAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() (*Store, *Journal) {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })

		j, err := s.Journal(Context{Op: "gemm", Runtime: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		return s, j
	}
	add := func(j *Journal, id string) {
		if err := j.Append(Entry{ID: id, Kind: Measured, Payload: []byte(`{"rows":[{}]}`)}); err != nil {
			t.Fatal(err)
		}
	}

	writer, rows := open()
	add(rows, "a1")
	planner, _ := open()
	if planner.Stale() {
		t.Error("a journal that was just read is stale")
	}

	add(rows, "a2")
	if !planner.Stale() {
		t.Error("the journal is not stale although another process has added a case to its segment")
	}
	if writer.Stale() {
		t.Error("the writer's own journal is stale")
	}
}
