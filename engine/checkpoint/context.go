package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Context is everything that a measurement depends on, except the case. Cases measured in one context
// are never used for another.
type Context struct {
	Op        string `json:"op"`
	Runtime   string `json:"runtime"` // kind of the runtime: cpu, cuda, nccl, python
	Framework string `json:"framework,omitempty"`
	Version   string `json:"version,omitempty"`
	Device    string `json:"device,omitempty"`
	// Env contains the environment fields selected by the plan's policy.
	Env map[string]string `json:"env,omitempty"`
	// Measure is the measurement settings, as a value for encoding/json.
	Measure any `json:"measure,omitempty"`
	// Extra contains further fields that distinguish contexts.
	Extra map[string]any `json:"extra,omitempty"`
}

// Digest returns the digest of the context, "sha256:<hex>". It fails if Measure or Extra cannot be
// encoded.
func (c Context) Digest() (string, error) {
	digest, _, err := Key(c)
	return digest, err
}

// ContextInfo is a context that has a journal.
type ContextInfo struct {
	Op     string `json:"op"`
	Digest string `json:"digest"`
	// JSON is the canonical form of the Context, for Explain.
	JSON json.RawMessage `json:"json"`
	Dir  string          `json:"dir"`
}

// contextFile is the content of context.json in the folder of a journal.
type contextFile struct {
	Format  int             `json:"format"`
	Digest  string          `json:"digest"`
	Context json.RawMessage `json:"context"`
}

func (s *Store) contextDir(op, digest string) string {
	return s.path("journal", fileName(op), strings.TrimPrefix(digest, digestPrefix)[:32])
}

// Contexts lists the contexts that have a journal, sorted by op and digest. An empty op selects all
// ops. A context with a damaged description is reported to Options.Warn and left out, but Store.Journal
// still finds its journal.
func (s *Store) Contexts(op string) ([]ContextInfo, error) {
	dirs, err := s.journalDirs(op)
	if err != nil {
		return nil, err
	}
	var out []ContextInfo
	for _, dir := range dirs {
		info, err := readContext(dir)
		switch {
		case errors.Is(err, ErrCorrupt):
			s.Warn(err.Error())
		case errors.Is(err, fs.ErrNotExist): // not a journal, or context.json is not written yet
		case err != nil:
			return nil, err
		case op == "" || info.Op == op:
			out = append(out, *info)
		}
	}

	slices.SortFunc(out, func(a, b ContextInfo) int {
		return cmp.Or(strings.Compare(a.Op, b.Op), strings.Compare(a.Digest, b.Digest))
	})

	return out, nil
}

func readContext(dir string) (*ContextInfo, error) {
	path := filepath.Join(dir, "context.json")
	var f contextFile
	if err := readJSON(path, &f); err != nil {
		return nil, err
	}

	var c struct{ Op string }
	canonical, err := Canonical(f.Context)
	if err == nil {
		err = json.Unmarshal(canonical, &c)
	}
	if err != nil {
		return nil, &CorruptError{Path: path, Detail: err.Error()}
	}
	if Digest(canonical) != f.Digest || !strings.HasPrefix(strings.TrimPrefix(f.Digest, digestPrefix),
		filepath.Base(dir)) {
		return nil, &CorruptError{Path: path, Detail: "it describes another context"}
	}

	return &ContextInfo{Op: c.Op, Digest: f.Digest, JSON: canonical, Dir: dir}, nil
}

// Nearest returns the context of the same op that differs least from c, other than c itself, and the
// differences as returned by Explain. It returns nil if there is no other context.
func (s *Store) Nearest(c Context) (*ContextInfo, []string, error) {
	digest, canonical, err := Key(c)
	if err != nil {
		return nil, nil, err
	}
	all, err := s.Contexts(c.Op)
	if err != nil {
		return nil, nil, err
	}

	var best *ContextInfo
	var why []string
	canonical = withFields(canonical)

	for i := range all {
		if all[i].Digest == digest {
			continue
		}
		if lines := Explain(withFields(all[i].JSON), canonical); best == nil || len(lines) < len(why) {
			best, why = &all[i], lines
		}
	}

	return best, why, nil
}

// withFields adds empty env and extra objects to a context without them, so that Explain reports their
// fields one by one.
func withFields(context json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{"env": json.RawMessage("{}"), "extra": json.RawMessage("{}")}
	_ = json.Unmarshal(context, &fields) // a context is an object
	out, _ := json.Marshal(fields)
	return out
}
