package checkpoint

import (
	"maps"
	"slices"
)

// Offer gives the journal entries that were kept elsewhere, for cases that it
// knows nothing of: its file may have been lost. They answer Has and the lookups
// from now on, and Keep writes them.
func (j *Journal) Offer(entries []Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		if j.index.find(e.ID) >= 0 {
			continue
		}
		if j.offered == nil {
			j.offered = map[string]Entry{}
		}
		j.offered[e.ID] = e
	}
}

// Offered is how many entries were offered and are not written yet.
func (j *Journal) Offered() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.offered)
}

// Keep appends what was offered, durably.
func (j *Journal) Keep() error {
	j.mu.Lock()
	var entries []Entry
	for _, id := range slices.Sorted(maps.Keys(j.offered)) {
		entries = append(entries, j.offered[id])
	}
	j.mu.Unlock()
	if err := j.AppendAll(entries); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.offered = nil
	return nil
}

// Misses says which of ids the journal knows nothing of, in their order.
func (j *Journal) Misses(ids []string) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []int
	for i, id := range ids {
		if j.index.find(id) < 0 {
			out = append(out, i)
		}
	}
	return out
}
