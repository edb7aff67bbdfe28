package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Running returns who is at work in the state folder, as far as its mark tells;
// nil when nobody is, or this store itself. Whether a holder on another machine
// or in another container is alive cannot be seen: it counts as alive. No lock
// is taken.
func (s *Store) Running() (*Holder, error) {
	if s.holds() {
		return nil, nil
	}
	h, err := s.readHolder()
	if errors.Is(err, ErrCorrupt) {
		return nil, nil // as for Lock, which takes such a mark over
	}
	if err != nil || h == nil {
		return nil, err
	}
	if host, err := os.Hostname(); err != nil || host != h.Host {
		return h, nil // its pid means nothing here
	}
	if alive, elsewhere := state(h, false); !alive && !elsewhere {
		return nil, nil
	}
	return h, nil
}

func (s *Store) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held != nil
}

// clockSlack is how far the clock that stamps files, a file server's perhaps,
// may be behind the one that stamped the mark of a run.
const clockSlack = time.Minute

// dryGC says what GC would remove. A run may be at work meanwhile: what it has
// written is not garbage, though no record names it yet.
func (s *Store) dryGC(ctx context.Context, opts GCOptions) (*GCReport, error) {
	r := &GCReport{}
	var err error
	if r.Active, err = s.Running(); err != nil {
		return nil, err
	}
	drop, err := s.garbage(r, opts)
	if err != nil {
		return nil, err
	}
	if err := s.compactAll(ctx, r, true); err != nil {
		return r, err
	}
	// One that began while the folder was read counts as well.
	if r.Active == nil {
		if r.Active, err = s.Running(); err != nil {
			return nil, err
		}
	}
	if r.Active != nil {
		since := r.Active.Started.Add(-clockSlack)
		drop = slices.DeleteFunc(drop, func(d Removed) bool {
			return changedSince(d.Path, since) || filepath.Base(d.Path) == r.Active.RunID
		})
		r.Compacted = slices.DeleteFunc(r.Compacted, func(c Compacted) bool {
			paths, err := segmentPaths(c.Dir)
			return err != nil || slices.ContainsFunc(paths, func(p string) bool { return changedSince(p, since) })
		})
	}
	r.Removed, r.Bytes = drop, 0
	for _, d := range drop {
		r.Bytes += d.Bytes
	}
	for _, c := range r.Compacted {
		r.Bytes += c.Before - c.After
	}
	return r, nil
}

// changedSince says whether a file or folder is as young as that, or gone.
func changedSince(path string, at time.Time) bool {
	info, err := os.Stat(path)
	return err != nil || !info.ModTime().Before(at)
}
