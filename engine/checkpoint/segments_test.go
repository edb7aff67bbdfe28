package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSegmentsCountByTheirNumber: the entry in the segment with the highest number is valid, whatever
// the number of digits. A number out of range does not sort last.
func TestSegmentsCountByTheirNumber(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	for i, to := range []string{"99999999-aa.seg", "9223372036854775807-aa.seg", ""} {
		s := open(t, dir, Options{})
		j := journal(t, s)
		appendOK(t, j, entry("a", Measured, string(rune('1'+i))))
		paths, err := segmentPaths(j.dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if last := paths[len(paths)-1]; to != "" {
			if err := os.Rename(last, filepath.Join(filepath.Dir(last), to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := open(t, dir, Options{})
	defer s.Close()
	j := journal(t, s)
	if got := contents(t, j); len(got) != 1 || got[0] != "a m 3" {
		t.Errorf("the journal has %q, want the last measurement", got)
	}
	if n := segmentNumber(j.segments[len(j.segments)-1]); n != 100000000 {
		t.Errorf("the last segment has the number %d", n)
	}
}

// TestMissingSegmentIsAnError checks that a segment that links to an unmounted disk is an error that names it, and
// that opening the journal does not wait forever.
func TestMissingSegmentIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	j := journal(t, s)
	if err := j.Append(Entry{ID: "a", Kind: Measured, Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(j.dir, "00000009-cafe.seg")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	defer s.Close()
	if _, err := s.Journal(j.context); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("opened: %v", err)
	}
}
