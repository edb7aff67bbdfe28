package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"aicplan/sink/table"
)

// VerifyReport is the result of Store.Verify.
type VerifyReport struct {
	Stages   int         `json:"stages"`
	Objects  ObjectStats `json:"objects"`
	Journals int         `json:"journals"`
	Entries  int         `json:"entries"` // valid cases
	Problems []Problem   `json:"problems"`
}

// OK reports whether no problem loses data.
func (r *VerifyReport) OK() bool {
	for _, p := range r.Problems {
		if !p.Harmless {
			return false
		}
	}
	return true
}

// Problem is one finding of Verify.
type Problem struct {
	Path   string `json:"path"`
	Detail string `json:"detail"`
	// Fix is the remedy: what aicplan will do, or what the user can do.
	Fix string `json:"fix"`
	// Harmless is true if no acknowledged data is lost, for example for a torn tail or a temporary
	// file.
	Harmless bool `json:"harmless"`
}

// Verify reads the whole state folder: it hashes every object and checks every stage record and every
// journal frame. It changes nothing. Problems are reported in the result; an error means that Verify
// could not continue.
func (s *Store) Verify(ctx context.Context) (*VerifyReport, error) {
	r := &VerifyReport{}
	add := func(p Problem) { r.Problems = append(r.Problems, p) }
	good := map[string]bool{}
	err := s.walkObjects(func(path, digest string, info fs.FileInfo) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}

		r.Objects.Count++
		r.Objects.Bytes += info.Size()
		switch {
		case err != nil:
			add(Problem{Path: path, Detail: err.Error(), Fix: "make the file readable"})
		case Digest(data) != digest:
			add(Problem{Path: path, Detail: fmt.Sprintf("its %d bytes have the digest %s", len(data),
				short(Digest(data))),
				Fix: "the stage that made it runs again with the next apply"})
		default:
			good[digest] = true
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	if err := s.verifyStages(r, good, add); err != nil {
		return nil, err
	}
	journals, err := s.verifyJournals(ctx, r, add)
	if err != nil {
		return nil, err
	}

	if err := s.verifyCollects(ctx, good, journals, add); err != nil {
		return nil, err
	}
	if err := s.verifyAttachments(ctx, good, add); err != nil {
		return nil, err
	}

	stray, err := s.strays()
	if err != nil {
		return nil, err
	}
	for _, p := range stray {
		add(Problem{Path: p.Path, Detail: p.Why, Fix: "aicplan ckpt gc removes it", Harmless: true})
	}

	return r, nil
}

func (s *Store) verifyStages(r *VerifyReport, good map[string]bool, add func(Problem)) error {
	return s.eachStage(func(path string, rec *StageRecord, err error) error {
		r.Stages++
		again := func(detail string) {
			add(Problem{Path: path, Detail: detail, Fix: "the stage runs again with the next apply"})
		}
		if err != nil {
			again(strings.TrimPrefix(err.Error(), path+" "))
			return nil
		}

		if want := s.stagePath(rec.Address); want != path {
			add(Problem{Path: path, Detail: "it is the record of " + rec.Address, Fix: "remove the file"})
		}
		for _, o := range s.summary(rec).Objects {
			named := fmt.Sprintf("the %s of %s, object %s, is ", o.Role, rec.Address, short(o.Digest))
			if !o.Present {
				again(named + "missing")
			} else if !good[o.Digest] {
				again(named + "damaged")
			} else if _, err := s.GetRecord(o.Digest); err != nil {
				add(Problem{Path: o.Path,
					Detail: fmt.Sprintf("it is the %s of %s, and no table: %s", o.Role, rec.Address, err),
					Fix:    "aicplan apply --replace " + rec.Address + " makes it again"})
			}
		}

		return nil
	})
}

// verifyCollects checks that every case in the table of a collect is in a journal: such a case was
// acknowledged before the table was written.
func (s *Store) verifyCollects(ctx context.Context, good map[string]bool, journals []*Journal,
	add func(Problem)) error {
	return s.eachStage(func(path string, rec *StageRecord, err error) error {
		if err != nil || rec.Journal == "" || !good[rec.Outputs.Table] {
			return ctx.Err() // reported already, or nothing to compare
		}

		tab, err := s.GetRecord(rec.Outputs.Table)
		if err != nil {
			return nil // not a table; verifyStages has reported it
		}
		ids, err := table.Strings(tab, "case_id")
		if err != nil {
			return nil
		}

		lost, cases := 0, map[string]bool{}
		for _, id := range ids.Values {
			journaled := slices.ContainsFunc(journals, func(j *Journal) bool { _, ok := j.Has(id); return ok })
			if !cases[id] && !journaled {
				lost++
			}
			cases[id] = true
		}

		if lost > 0 {
			add(Problem{Path: path, Detail: fmt.Sprintf("%d of the %d measured cases of %s are in no journal", lost,
				len(cases), rec.Address),
				Fix: "the stage's table has them; a run that needs them measures them again"})
		}
		return ctx.Err()
	})
}

// verifyJournals checks all journals and returns them.
func (s *Store) verifyJournals(ctx context.Context, r *VerifyReport, add func(Problem)) ([]*Journal, error) {
	var all []*Journal
	dirs, err := s.journalDirs("")
	if err != nil {
		return nil, err
	}

	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		info, err := readContext(dir)
		switch {
		case err == nil:
		case errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist):
			add(Problem{Path: dir, Detail: strings.TrimPrefix(err.Error(), dir),
				Fix: "no case is lost; plans that look its cases up still find them", Harmless: true})
			info = &ContextInfo{Dir: dir}
		default:
			return nil, err
		}

		sum, j, err := s.summarize(*info)
		if err != nil {
			return nil, err
		}
		all = append(all, j)
		r.Journals++
		r.Entries += j.Len()

		for _, d := range sum.Damage {
			p := Problem{Path: d.Path, Detail: d.String(),
				Fix: "cases that were there are measured again; aicplan ckpt gc cleans the journal"}
			if d.Harmless() {
				p.Fix, p.Harmless = "nothing acknowledged was there; aicplan ckpt gc cleans the journal", true
			}
			add(p)
		}
	}

	return all, nil
}
