package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Context is everything that a measurement depends on other than the case.
// Cases measured in one context are never taken for another's.
type Context struct {
	Op        string `json:"op"`
	Runtime   string `json:"runtime"` // kind of the runtime: cpu, cuda, nccl, python
	Framework string `json:"framework,omitempty"`
	Version   string `json:"version,omitempty"`
	Device    string `json:"device,omitempty"`
	// Env are the fields of the environment that the plan's policy chose.
	Env map[string]string `json:"env,omitempty"`
	// Measure are the measurement settings, as a value for encoding/json.
	Measure any `json:"measure,omitempty"`
	// Extra is what else the caller wants to set measurements apart by.
	Extra map[string]any `json:"extra,omitempty"`
}

// Digest names the context, "sha256:<hex>". It fails when Measure or Extra
// cannot be encoded.
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

// contextFile lies in the folder of a journal's segments.
type contextFile struct {
	Format  int             `json:"format"`
	Digest  string          `json:"digest"`
	Context json.RawMessage `json:"context"`
}

func (s *Store) contextDir(op, digest string) string {
	return s.path("journal", fileName(op), strings.TrimPrefix(digest, digestPrefix)[:32])
}

// Contexts lists the contexts with a journal, of one op or, when op is "", of
// all, by op and digest. A context whose description is damaged is reported
// to Options.Warn and left out; its journal is found all the same by those
// who know the context.
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
			s.warn(err.Error())
		case errors.Is(err, fs.ErrNotExist): // another file, or not written yet
		case err != nil:
			return nil, err
		case op == "" || info.Op == op:
			out = append(out, *info)
		}
	}
	slices.SortFunc(out, func(a, b ContextInfo) int {
		if c := strings.Compare(a.Op, b.Op); c != 0 {
			return c
		}
		return strings.Compare(a.Digest, b.Digest)
	})
	return out, nil
}

func readContext(dir string) (*ContextInfo, error) {
	path := filepath.Join(dir, "context.json")
	var f contextFile
	if err := readJSON(path, &f); err != nil {
		return nil, err
	}
	canonical, err := Canonical(f.Context)
	if err != nil {
		return nil, &CorruptError{Path: path, Detail: err.Error()}
	}
	if Digest(canonical) != f.Digest || !strings.HasPrefix(strings.TrimPrefix(f.Digest, digestPrefix), filepath.Base(dir)) {
		return nil, &CorruptError{Path: path, Detail: "it describes another context"}
	}
	var c struct{ Op string }
	if err := json.Unmarshal(canonical, &c); err != nil {
		return nil, &CorruptError{Path: path, Detail: err.Error()}
	}
	return &ContextInfo{Op: c.Op, Digest: f.Digest, JSON: canonical, Dir: dir}, nil
}

// Nearest returns the context of the same op that differs least from c, other
// than c itself, and the differences as Explain gives them. It returns nil
// when there is none: nothing of this op was measured before.
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

// withFields gives a context that has nothing in env or extra an empty one, so
// that the first of their fields is explained as itself.
func withFields(context json.RawMessage) json.RawMessage {
	fields := map[string]json.RawMessage{"env": json.RawMessage("{}"), "extra": json.RawMessage("{}")}
	if json.Unmarshal(context, &fields) != nil {
		return context
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return context
	}
	return out
}

func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
