package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var gemm = Context{Op: "gemm", Runtime: "cpu", Framework: "CPU", Version: "v0.17.0", Device: "Xeon",
	Measure: map[string]any{"samples": 6}}

func journal(t testing.TB, s *Store) *Journal {
	t.Helper()
	j, err := s.Journal(gemm)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func appendOK(t testing.TB, j *Journal, entries ...Entry) {
	t.Helper()
	if err := j.AppendAll(entries); err != nil {
		t.Fatal(err)
	}
}

func entry(id string, kind Kind, payload string) Entry {
	return Entry{ID: id, Kind: kind, Payload: []byte(payload)}
}

// contents returns the entries of All as text.
func contents(t testing.TB, j *Journal) []string {
	t.Helper()
	var out []string
	for e, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %c %s", e.ID, e.Kind, e.Payload))
	}
	return out
}

func onlySegment(t testing.TB, j *Journal) string {
	t.Helper()
	paths, err := segmentPaths(j.dir)
	if err != nil || len(paths) != 1 {
		t.Fatalf("segments: %v, %v", paths, err)
	}
	return paths[0]
}

func TestJournalRemembers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "1"), entry("b", Failed, "x"), entry("c", Failed, "y"))
	appendOK(t, j, entry("b", Measured, "2"), entry("c", Failed, "z"), entry("a", Failed, "never"))
	want := []string{"a m 1", "b m 2", "c f z"}
	check := func(j *Journal) {
		t.Helper()
		if d := cmp.Diff(want, contents(t, j)); d != "" {
			t.Error(d)
		}
		if j.Len() != 3 || j.counts[Measured] != 2 || j.counts[Failed] != 1 {
			t.Errorf("counts: %d, %d measured, %d failed", j.Len(), j.counts[Measured], j.counts[Failed])
		}
		if k, ok := j.Has("c"); !ok || k != Failed {
			t.Errorf("Has(c) = %v, %v", k, ok)
		}
		if e, ok, err := j.Lookup("b"); err != nil || !ok || string(e.Payload) != "2" || e.Kind != Measured {
			t.Errorf("Lookup(b) = %v, %v, %v", e, ok, err)
		}
		if _, ok, err := j.Lookup("nope"); ok || err != nil {
			t.Errorf("Lookup(nope) = %v, %v", ok, err)
		}
	}
	check(j)
	if again := journal(t, s); again != j {
		t.Error("opening a journal twice makes two")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(entry("d", Measured, "")); !errors.Is(err, ErrClosed) {
		t.Errorf("append after Close: %v", err)
	}

	// A second writer gets a separate segment, whose entries override those of the first.
	s = open(t, dir, Options{})
	j = journal(t, s)
	check(j)
	appendOK(t, j, entry("a", Measured, "3"), entry("d", Measured, "4"))
	want = []string{"b m 2", "c f z", "a m 3", "d m 4"}
	if d := cmp.Diff(want, contents(t, j)); d != "" {
		t.Error(d)
	}
	if paths, err := segmentPaths(j.dir); err != nil || len(paths) != 2 {
		t.Errorf("segments: %v, %v", paths, err)
	}
	other := gemm
	other.Measure = map[string]any{"samples": 12}
	if o, err := s.Journal(other); err != nil || o.Len() != 0 {
		t.Errorf("another context sees the same cases: %v", err)
	}
	ro := open(t, dir, Options{ReadOnly: true})
	if d := cmp.Diff(want, contents(t, journal(t, ro))); d != "" {
		t.Error(d)
	}
}

func TestAppendFuncKeepsTheOrder(t *testing.T) {
	j := journal(t, newStore(t))
	const n = 500
	var mu sync.Mutex
	var got []int
	done := make(chan struct{})
	for i := range n {
		payload := []byte(fmt.Sprint(i))
		err := j.AppendFunc(Entry{ID: fmt.Sprintf("c%d", i), Kind: Measured, Payload: payload}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, i); len(got) == n {
				close(done)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		clear(payload) // the journal must have its own copy
	}
	<-done
	if !slices.IsSorted(got) {
		t.Error("acknowledged in another order")
	}
	if e, _, err := j.Lookup("c123"); err != nil || string(e.Payload) != "123" {
		t.Errorf("payload %q, %v", e.Payload, err)
	}
}

// Every prefix of a segment is readable: it returns exactly the entries before the cut, and appending
// continues.
func TestJournalCutAtEveryByte(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "one"), entry("b", Failed, "two"),
		entry("c", Measured, strings.Repeat("three", 20)))
	path := onlySegment(t, j)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	if _, err := scanSegment(strings.NewReader(string(whole)), path, 0,
		func(_ Entry, off int64, size int) error { ends = append(ends, int(off)+size); return nil }); err != nil ||
		len(ends) != 3 {
		t.Fatalf("%v, %v", ends, err)
	}
	all := []string{"a m one", "b f two", "c m " + strings.Repeat("three", 20)}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		ro := open(t, dir, Options{ReadOnly: true,
			Warn: func(m string) { t.Errorf("cut at %d: a torn end is no reason to warn: %s", n, m) }})
		j := journal(t, ro)
		complete := 0
		for _, e := range ends {
			if e <= n {
				complete++
			}
		}
		if d := cmp.Diff(all[:complete], contents(t, j)); d != "" && complete+j.Len() > 0 {
			t.Fatalf("cut at %d of %d: %s", n, len(whole), d)
		}
		clean := n == 0 || n == len(segmentMagic) || slices.Contains(ends, n)
		if damage := j.damage; clean != (len(damage) == 0) || (!clean && !damage[0].Tail) {
			t.Fatalf("cut at %d: damage %v", n, damage)
		}
	}
	if err := os.WriteFile(path, whole[:len(whole)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	appendOK(t, journal(t, s), entry("c", Measured, "again"), entry("d", Measured, "new"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	if d := cmp.Diff([]string{"a m one", "b f two", "c m again", "d m new"}, contents(t, journal(t, s))); d != "" {
		t.Error(d)
	}
}

// A changed byte makes only its own entry unreadable.
func TestJournalDamagedAtEveryByte(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "one"), entry("b", Measured, "two"), entry("c", Measured, "three"))
	path := onlySegment(t, j)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type span struct{ from, to int }
	var spans []span
	if _, err := scanSegment(strings.NewReader(string(whole)), path, 0, func(_ Entry, off int64, size int) error {
		spans = append(spans, span{int(off), int(off) + size})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all := []string{"a m one", "b m two", "c m three"}
	for n := range whole {
		bad := slices.Clone(whole)
		bad[n] ^= 0x41
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, sp := range spans {
			if n < sp.from || n >= sp.to {
				want = append(want, all[i])
			}
		}
		warned := 0
		ro := open(t, dir, Options{ReadOnly: true, Warn: func(string) { warned++ }})
		j := journal(t, ro)
		if d := cmp.Diff(want, contents(t, j)); d != "" {
			t.Fatalf("byte %d: %s", n, d)
		}
		inLast := n >= spans[2].from
		if damage := j.damage; len(damage) != 1 || damage[0].Tail != inLast || (warned == 1) == damage[0].Tail {
			t.Fatalf("byte %d: damage %v, %d warnings", n, damage, warned)
		}
	}
	// A journal that was opened before the change detects it, too.
	bad := slices.Clone(whole)
	bad[spans[1].to-1] ^= 1
	if err := os.WriteFile(path, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := j.Lookup("b"); ok || !errors.Is(err, ErrCorrupt) {
		t.Errorf("Lookup of a changed entry: %v, %v", ok, err)
	}
}

// A payload may contain bytes that look like frames. If it is damaged, one range is reported and the
// following entries are found.
func TestDamageInAPayloadOfFrames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j := journal(t, open(t, dir, Options{}))
	trap := strings.Repeat(frameSync+"\x10\x00\x00\x00 not a frame ", 5)
	appendOK(t, j, entry("a", Measured, trap), entry("b", Measured, "two"))
	path := onlySegment(t, j)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(segmentMagic)+9] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	j = journal(t, open(t, dir, Options{ReadOnly: true}))
	if d := cmp.Diff([]string{"b m two"}, contents(t, j)); d != "" {
		t.Error(d)
	}
	length := int64(len(appendFrame(nil, entry("a", Measured, trap))))
	if d := cmp.Diff([]Damage{{Path: path, Offset: int64(len(segmentMagic)), Length: length}}, j.damage); d != "" {
		t.Error(d)
	}
}

// After a power failure only synced data remains. It must contain everything that was acknowledged.
func TestAcknowledgedMeansSynced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ff := newFaultyFiles()
	s := open(t, dir, Options{files: ff})
	j := journal(t, s)
	const writers, each = 16, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("w%d-%d", w, i)
				if err := j.Append(entry(id, Measured, id)); err != nil {
					t.Error(err)
					return
				}
				j.mu.Lock()
				r := j.entries[keyOf(id)]
				path := j.segments[r.segment]
				j.mu.Unlock()
				ff.set(func() {
					if ff.synced[path] < r.off+int64(r.size) {
						t.Errorf("%s was acknowledged at %d+%d with %d bytes synced", id, r.off, r.size, ff.synced[path])
					}
					for p := path; len(p) > len(dir); p = filepath.Dir(p) {
						if !ff.named[p] {
							t.Errorf("%s was acknowledged before the name %s was durable", id, p)
						}
					}
				})
			}
		})
	}
	wg.Wait()
	if j.Len() != writers*each {
		t.Errorf("%d entries, want %d", j.Len(), writers*each)
	}
}

func TestJournalOnAFullDisk(t *testing.T) {
	t.Parallel()
	for budget := int64(0); budget < 400; budget += 7 {
		dir := filepath.Join(t.TempDir(), "state")
		ff := newFaultyFiles()
		s := open(t, dir, Options{files: ff})
		j := journal(t, s)
		appendOK(t, j, entry("safe", Measured, "1"))
		ff.set(func() { ff.budget = budget })
		acked := []string{"safe m 1"}
		failed := 0
		for i := range 6 {
			e := entry(fmt.Sprintf("c%d", i), Measured, strings.Repeat("p", 30))
			err := j.Append(e)
			if err == nil {
				acked = append(acked, fmt.Sprintf("%s m %s", e.ID, e.Payload))
				continue
			}
			failed++
			if !errors.Is(err, syscall.ENOSPC) ||
				!strings.Contains(err.Error(), "free some space there and run the same command again") ||
				!strings.Contains(err.Error(), j.dir) {
				t.Fatalf("budget %d: %v", budget, err)
			}
		}
		if budget < 200 && failed == 0 {
			t.Fatalf("budget %d: the disk was never full", budget)
		}
		ff.set(func() { ff.budget = -1 })
		appendOK(t, j, entry("after", Measured, "2"))
		acked = append(acked, "after m 2")
		if d := cmp.Diff(acked, contents(t, j)); d != "" {
			t.Fatalf("budget %d: %s", budget, d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, Options{})
		if d := cmp.Diff(acked, contents(t, journal(t, s))); d != "" {
			t.Fatalf("budget %d, opened again: %s", budget, d)
		}
	}
}

func TestJournalAfterAFailedSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ff := newFaultyFiles()
	s := open(t, dir, Options{files: ff})
	j := journal(t, s)
	appendOK(t, j, entry("a", Measured, "1"))
	first := onlySegment(t, j)
	size := ff.synced[first]
	ff.set(func() { ff.sync = syscall.EIO })
	err := j.Append(entry("b", Measured, "2"))
	if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "the disk reports a fault") {
		t.Errorf("got %v", err)
	}
	if _, ok := j.Has("b"); ok {
		t.Error("an entry that was not synced counts")
	}
	appendOK(t, j, entry("c", Measured, "3"))
	if info, err := os.Stat(first); err != nil || info.Size() != size {
		t.Errorf("the file with the failed sync was written to again: %v, %v", info.Size(), err)
	}
	if d := cmp.Diff([]string{"a m 1", "c m 3"}, contents(t, j)); d != "" {
		t.Error(d)
	}
}

func TestAppendRefusesWhatDoesNotFit(t *testing.T) {
	j := journal(t, newStore(t))
	err := j.Append(Entry{ID: "big", Kind: Measured, Payload: make([]byte, maxBody)})
	if err == nil || !strings.Contains(err.Error(), "case big") {
		t.Errorf("got %v", err)
	}
	appendOK(t, j, Entry{ID: "large", Kind: Measured, Payload: make([]byte, 3<<20)}, entry("small", Measured, ""))
	if e, ok, err := j.Lookup("large"); err != nil || !ok || len(e.Payload) != 3<<20 {
		t.Errorf("a large payload: %v, %v", ok, err)
	}
	if got := contents(t, j); len(got) != 2 {
		t.Errorf("%d entries", len(got))
	}
}

func FuzzScanSegment(f *testing.F) {
	good := appendFrame(appendFrame([]byte(segmentMagic), entry("a", Measured, "1")), entry("b", Failed, "22"))
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte(segmentMagic + frameSync + "\xff\xff\xff\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		covered := int64(0)
		damage, err := scanSegment(strings.NewReader(string(data)), "x", 0, func(e Entry, off int64, size int) error {
			covered += int64(size)
			if again := appendFrame(nil, e); string(again) != string(data[off:off+int64(size)]) && len(again) == size {
				t.Errorf("the frame at %d does not say what was read", off)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range damage {
			covered += d.Length
		}
		if strings.HasPrefix(string(data), segmentMagic) {
			covered += int64(len(segmentMagic))
		}
		if covered != int64(len(data)) {
			t.Errorf("%d of %d bytes are accounted for", covered, len(data))
		}
	})
}
