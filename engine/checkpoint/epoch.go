package checkpoint

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// NewEpoch returns a unique token for Withdraw. It starts with what; see InEpoch.
func NewEpoch(what string) string { return what + "-" + randomHex(8) }

// InEpoch reports whether NewEpoch(what) created the token.
func InEpoch(token, what string) bool { return strings.HasPrefix(token, what+"-") }

// Withdraw durably invalidates the entries of ids. The token identifies this withdrawal: a resumed run
// compares it with Epoch to find the cases that it has already withdrawn, and does not measure those
// again that were appended since.
func (j *Journal) Withdraw(ids []string, token string) error {
	entries := make([]Entry, 0, len(ids))
	for _, id := range ids {
		entries = append(entries, Entry{ID: id, Kind: Withdrawn, Payload: []byte(token)})
	}
	return j.AppendAll(entries)
}

// Epoch returns the token of the last withdrawal of a case, or "" if it was never withdrawn. open is
// true if no entry has been appended since.
func (j *Journal) Epoch(id string) (token string, open bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.entries[keyOf(id)]
	return j.epochs[r.epoch], r.kind == Withdrawn
}

// Inherit adds to j, with their withdrawals, the entries that this process has appended to another journal, and those
// of stores whose label begins with label, if that is not empty.
func (j *Journal) Inherit(other *Journal, label string) error {
	var entries []Entry
	err := other.scan(func(e Entry) error {
		if !other.wrote(e.ID, label) {
			return nil
		}
		kind, has := j.Has(e.ID)
		own, _ := j.Epoch(e.ID)
		theirs, _ := other.Epoch(e.ID)
		if own != theirs || e.Kind != Withdrawn && (!has || kind != e.Kind) {
			entries = append(entries, Entry{ID: e.ID, Kind: e.Kind, Payload: bytes.Clone(e.Payload)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return j.AppendAll(entries)
}

// wrote reports whether this process, or a store whose label begins with label, has appended the entry of a case.
func (j *Journal) wrote(id, label string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	path := j.segments[j.entries[keyOf(id)].segment]
	return j.own[path] || label != "" && strings.Contains(filepath.Base(path), "-"+label)
}

// epoch returns the index of a token in j.epochs and adds it if it is new. The caller has locked j.mu,
// or j is not shared yet.
func (j *Journal) epoch(token string) int32 {
	// The list is short: one token for each --replace or --retry.
	if n := slices.Index(j.epochs, token); n >= 0 {
		return int32(n)
	}
	j.epochs = append(j.epochs, token)
	return int32(len(j.epochs) - 1)
}
