package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
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

// objectStates are the states of objects by digest, as messages have them after "is". A damaged object and a missing
// one are lost; an unreadable one may be whole.
type objectStates map[string]string

const (
	intact     = "intact"
	missing    = "missing"
	unreadable = "not readable"
)

// readable is the remedy for a file that cannot be read.
const readable = "make the file readable; nothing is known to be lost"

// inspect reads an object. It returns its state and what is wrong with it.
func inspect(path, digest string) (state, detail string) {
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing, ""
	case err != nil:
		return unreadable, unread(path, fileutil.Explain("read", path, err))
	case Digest(data) != digest:
		return "damaged", fmt.Sprintf("its %d bytes have the digest %s", len(data), short(Digest(data)))
	}
	return intact, ""
}

// unread returns the text of a read error beside the path.
func unread(path string, err error) string {
	return strings.Replace(err.Error(), "cannot read "+path, "it cannot be read", 1)
}

// stateOf returns the state of an object that a record refers to. A run that goes on meanwhile may have written it
// after found was filled.
func (s *Store) stateOf(found objectStates, digest string) string {
	if found[digest] == "" {
		found[digest] = missing
		if path, err := s.ObjectPath(digest); err == nil {
			found[digest], _ = inspect(path, digest)
		}
	}
	return found[digest]
}

// Verify reads the whole state folder: it hashes every object and checks every stage record and every
// journal frame. It changes nothing. Problems are reported in the result; an error means that Verify
// could not continue.
func (s *Store) Verify(ctx context.Context) (*VerifyReport, error) {
	r := &VerifyReport{}
	add := func(p Problem) { r.Problems = append(r.Problems, p) }
	found := objectStates{}
	err := s.walkObjects(func(path, digest string, info fs.FileInfo) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		state, detail := inspect(path, digest)
		if state == missing {
			return nil
		}

		found[digest] = state
		r.Objects.Count++
		r.Objects.Bytes += info.Size()
		switch state {
		case intact:
		case unreadable:
			add(Problem{Path: path, Detail: detail, Fix: readable})
		default:
			add(Problem{Path: path, Detail: detail,
				Fix: "the stage that made it runs again with the next apply, and aicplan ckpt gc removes what no stage needs"})
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	if err := s.verifyStages(r, found, add); err != nil {
		return nil, err
	}
	journals, err := s.verifyJournals(ctx, r, add)
	if err != nil {
		return nil, err
	}

	if err := s.verifyCollects(ctx, found, journals, add); err != nil {
		return nil, err
	}
	if err := s.verifyAttachments(ctx, found, add); err != nil {
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

func (s *Store) verifyStages(r *VerifyReport, found objectStates, add func(Problem)) error {
	return s.eachStage(func(path string, rec *StageRecord, err error) error {
		r.Stages++
		const again = "the stage runs again with the next apply"
		if err != nil {
			p := Problem{Path: path, Detail: strings.TrimPrefix(err.Error(), path+" "), Fix: again}
			if !errors.Is(err, ErrCorrupt) {
				p.Detail, p.Fix = unread(path, err), readable
			}
			add(p)
			return nil
		}

		if want := s.stagePath(rec.Address); want != path {
			add(Problem{Path: path, Detail: "it is the record of " + rec.Address, Fix: "remove the file"})
		}
		for _, o := range s.summary(rec).Objects {
			if state := s.stateOf(found, o.Digest); state != intact {
				p := Problem{Path: path, Fix: again,
					Detail: fmt.Sprintf("the %s of %s, object %s, is %s", o.Role, rec.Address, short(o.Digest), state)}
				if state == unreadable {
					p.Fix = readable
				}
				add(p)
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
// acknowledged before the table was written, or was withdrawn since.
func (s *Store) verifyCollects(ctx context.Context, found objectStates, journals []*Journal,
	add func(Problem)) error {
	return s.eachStage(func(path string, rec *StageRecord, err error) error {
		if err != nil || rec.Journal == "" || s.stateOf(found, rec.Outputs.Table) != intact {
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
			journaled := slices.ContainsFunc(journals, func(j *Journal) bool {
				_, withdrawn := j.Epoch(id) // by a --replace that has not ended
				_, ok := j.Has(id)
				return ok || withdrawn
			})
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
			add(Problem{Path: dir, Detail: strings.TrimPrefix(err.Error(), dir+"/"),
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
			if d.Tail {
				p.Fix, p.Harmless = "nothing acknowledged was there; aicplan ckpt gc cleans the journal", true
			}
			add(p)
		}
	}

	return all, nil
}
