package checkpoint

import (
	"path/filepath"
	"slices"
)

// Marks says how far each segment of the journal has been read, by the name of
// its file. Whoever keeps what he made of the entries keeps the marks with it, and
// asks Before later which of them are still the same.
func (j *Journal) Marks() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make(map[string]int64, len(j.read))
	for n, end := range j.read {
		if end > 0 {
			out[filepath.Base(j.segments[n])] = end
		}
	}
	return out
}

// Kept says whether all that was there when the marks were made is there still:
// nothing is damaged, and no segment is shorter or gone. After a merge of segments
// it says no.
func (j *Journal) Kept(marks map[string]int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.ContainsFunc(j.damage, func(d Damage) bool { return !d.Harmless() }) {
		return false
	}
	kept := 0
	for n, end := range j.read {
		if want, ok := marks[filepath.Base(j.segments[n])]; ok && want <= end {
			kept++
		}
	}
	return kept == len(marks)
}

// Before says of n ids whether the entry that counts was there when the marks were
// made. Of segments that were merged meanwhile it says no.
func (j *Journal) Before(marks map[string]int64, n int, id func(i int) string) []bool {
	out := make([]bool, n)
	if len(marks) == 0 {
		return out
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ends := make([]int64, len(j.segments))
	for i, path := range j.segments {
		ends[i] = marks[filepath.Base(path)]
	}
	for i := range out {
		r, ok := j.index.get(id(i))
		out[i] = ok && r.kind != Withdrawn && r.off+int64(r.size) <= ends[r.segment]
	}
	return out
}
