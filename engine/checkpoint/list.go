package checkpoint

import (
	"errors"
	"io/fs"
	"os"

	"aicplan/sink/base/fileutil"
)

// Listing summarizes a state folder.
type Listing struct {
	Dir      string           `json:"dir"`
	Stages   []StageSummary   `json:"stages"`
	Journals []JournalSummary `json:"journals"`
	Runs     []Run            `json:"runs"`
	Objects  ObjectStats      `json:"objects"`
}

// ObjectStats counts objects and their bytes.
type ObjectStats struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// StageSummary is a stage record with the objects it refers to.
type StageSummary struct {
	Record  *StageRecord `json:"record"`
	Objects []ObjectInfo `json:"objects"`
}

// Bytes returns the total size of the objects that exist.
func (s StageSummary) Bytes() int64 {
	n := int64(0)
	for _, o := range s.Objects {
		n += o.Bytes
	}
	return n
}

// ObjectInfo is an object that a stage record refers to.
type ObjectInfo struct {
	Role    string `json:"role"` // table, ledger or planned
	Digest  string `json:"digest"`
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Present bool   `json:"present"`
}

// JournalSummary summarizes the journal of one context.
type JournalSummary struct {
	Context  ContextInfo `json:"context"`
	Measured int         `json:"measured"`
	Failed   int         `json:"failed"`
	Segments int         `json:"segments"`
	Bytes    int64       `json:"bytes"`
	Damage   []Damage    `json:"damage"`
}

// List summarizes the state folder. It reads the journals but no objects.
func (s *Store) List() (*Listing, error) {
	l := &Listing{Dir: s.Dir}
	records, err := s.Stages()
	if err != nil {
		return nil, err
	}

	for _, rec := range records {
		l.Stages = append(l.Stages, s.summary(rec))
	}

	contexts, err := s.Contexts("")
	if err != nil {
		return nil, err
	}
	for _, c := range contexts {
		sum, _, err := s.summarize(c)
		if err != nil {
			return nil, err
		}
		l.Journals = append(l.Journals, *sum)
	}

	if l.Runs, err = s.Runs(); err != nil {
		return nil, err
	}
	err = s.walkObjects(func(_, _ string, info fs.FileInfo) error {
		l.Objects.Count++
		l.Objects.Bytes += info.Size()
		return nil
	})

	return l, err
}

func (s *Store) summary(rec *StageRecord) StageSummary {
	sum := StageSummary{Record: rec}
	for _, o := range []ObjectInfo{
		{Role: "table", Digest: rec.Outputs.Table},
		{Role: "ledger", Digest: rec.Outputs.Ledger},
		{Role: "planned", Digest: rec.Outputs.Planned},
	} {
		if o.Digest == "" {
			continue
		}
		if path, err := s.ObjectPath(o.Digest); err == nil {
			o.Path = path
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				o.Present, o.Bytes = true, info.Size()
			}
		}

		sum.Objects = append(sum.Objects, o)
	}

	return sum
}

// summarize reads the journal of a context without opening it.
func (s *Store) summarize(c ContextInfo) (*JournalSummary, *Journal, error) {
	j := &Journal{store: s, dir: c.Dir}
	if err := j.load(); err != nil {
		return nil, nil, err
	}

	sum := &JournalSummary{Context: c, Measured: j.counts[Measured], Failed: j.counts[Failed],
		Segments: len(j.segments), Damage: j.damage}
	for _, path := range j.segments {
		if info, err := os.Stat(path); err == nil {
			sum.Bytes += info.Size()
		}
	}

	return sum, j, nil
}

// walkObjects calls visit for every file in objects/ whose name is a digest.
func (s *Store) walkObjects(visit func(path, digest string, info fs.FileInfo) error) error {
	dirs, err := readDir(s.path("objects"))
	if err != nil {
		return err
	}

	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		files, err := readDir(s.path("objects", d.Name()))
		if err != nil {
			return err
		}

		for _, f := range files {
			if !isDigestName(f.Name()) || f.Name()[:2] != d.Name() {
				continue
			}
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}

			path := s.path("objects", d.Name(), f.Name())
			if err != nil {
				return fileutil.Explain("read", path, err)
			}
			if err := visit(path, digestPrefix+f.Name(), info); err != nil {
				return err
			}
		}
	}

	return nil
}
