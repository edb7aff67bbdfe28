package checkpoint

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Run is the folder of one run, with its events and worker logs.
type Run struct {
	ID      string    `json:"id"`
	Dir     string    `json:"dir"`
	Started time.Time `json:"started"` // UTC, to the millisecond
}

const runTime = "20060102T150405.000"

// NewRun creates the folder of a new run. Run ids sort by start time; the new id sorts after all
// existing ones.
func (s *Store) NewRun() (*Run, error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	if err := s.mkdir(s.path("runs")); err != nil {
		return nil, err
	}

	at := s.Now().UTC().Truncate(time.Millisecond)
	for {
		last, err := s.LatestRun()
		if err != nil && !errors.Is(err, ErrMissing) {
			return nil, err
		}
		if last != nil && !at.After(last.Started) {
			at = last.Started.Add(time.Millisecond)
		}

		id := at.Format(runTime) + "-" + randomHex(4)
		dir := s.path("runs", id)
		err = s.files.Mkdir(dir)
		if errors.Is(err, fs.ErrExist) {
			continue
		}

		if err == nil {
			err = s.files.SyncDir(filepath.Dir(dir))
		}
		if err != nil {
			return nil, s.explain("create", dir, err)
		}

		return &Run{ID: id, Dir: dir, Started: at}, nil
	}
}

// Runs lists the runs, oldest first.
func (s *Store) Runs() ([]Run, error) {
	entries, err := readDir(s.path("runs"))
	if err != nil {
		return nil, err
	}

	var out []Run
	for _, e := range entries {
		stamp, random, _ := strings.Cut(e.Name(), "-")
		at, err := time.Parse(runTime, stamp)
		if err != nil || len(random) != 4 || !e.IsDir() {
			continue // not a run
		}

		out = append(out, Run{ID: e.Name(), Dir: s.path("runs", e.Name()), Started: at})
	}

	return out, nil
}

// LatestRun returns the newest run. It returns ErrMissing if there are no runs.
func (s *Store) LatestRun() (*Run, error) {
	runs, err := s.Runs()
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, ErrMissing
	}

	return &runs[len(runs)-1], nil
}
