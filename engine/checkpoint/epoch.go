package checkpoint

import (
	"slices"
	"strings"
)

// NewEpoch returns a token for Withdraw that no other run makes. What begins it
// tells epochs apart that have other meanings; see InEpoch.
func NewEpoch(what string) string { return what + "-" + randomHex(8) }

// InEpoch says whether NewEpoch made a token for what.
func InEpoch(token, what string) bool { return strings.HasPrefix(token, what+"-") }

// Withdraw makes what the journal has of ids count no more, durably, before it
// returns. The token names the epoch: cases that were withdrawn in it are told
// from others by Epoch, so that what is measured again after a kill is not
// measured once more.
func (j *Journal) Withdraw(ids []string, token string) error {
	entries := make([]Entry, 0, len(ids))
	for _, id := range ids {
		entries = append(entries, Entry{ID: id, Kind: Withdrawn, Payload: []byte(token)})
	}
	return j.AppendAll(entries)
}

// Epoch is the token of the last withdrawal of a case, "" where it was never
// withdrawn; open is true while nothing has been appended since.
func (j *Journal) Epoch(id string) (token string, open bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.entries[id]
	if len(j.epochs) == 0 {
		return "", false
	}
	return j.epochs[r.epoch], r.kind == Withdrawn
}

// epoch numbers a token; j.mu is held, or j is not shared yet.
func (j *Journal) epoch(token string) int32 {
	// There are few: one for each -replace or -retry.
	if n := slices.Index(j.epochs, token); n >= 0 {
		return int32(n)
	}
	j.epochs = append(j.epochs, token)
	return int32(len(j.epochs) - 1)
}

// withdrawal is the entry that withdrew a case.
func (j *Journal) withdrawal(id string, r ref) Entry {
	return Entry{ID: id, Kind: Withdrawn, Payload: []byte(j.epochs[r.epoch])}
}

// withdrawals are the entries that withdrew cases, by id. A compacted journal keeps
// them for Epoch.
func (j *Journal) withdrawals() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []Entry
	for id, r := range j.entries {
		if r.epoch > 0 {
			out = append(out, j.withdrawal(id, r))
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.ID, b.ID) })
	return out
}
