package export

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/atomic"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/systems"
)

// written says what happened to a file.
type written struct {
	tree.MergeReport
	merged bool
}

func (w written) text(name string, a stage.Artifact) string {
	s := fmt.Sprintf("%s: %d rows, %s", name, a.Rows, a.Digest)
	if w.merged {
		s += " (" + w.Text() + ")"
	}
	return s
}

// join puts the datasets of one table below each other.
func join(recs []arrow.Record) (arrow.Record, error) {
	if len(recs) == 1 {
		return recs[0], nil
	}
	names := table.Names(recs[0])
	for _, r := range recs[1:] {
		if other := table.Names(r); !slices.Equal(names, other) {
			// A set without power, or without an optional column, would leave
			// holes that readers of CSV cannot parse.
			return nil, fmt.Errorf("the inputs have different columns: %v and %v; measure them alike, or export them separately", names, other)
		}
	}
	return table.Concat(recs...)
}

// mergeTries bounds how often a merge begins anew because the file changes under
// it: by a writer that no lock reaches, or by hand.
const mergeTries = 20

// For tests: called between reading a file and replacing it, and after that.
var beforeReplace, afterReplace = func(path string) {}, func(path string) {}

// errMoved says that a file is not the one any more that was read.
var errMoved = errors.New("the file was changed meanwhile")

func notMoved(err error) error {
	if errors.Is(err, errMoved) {
		return nil
	}
	return err
}

// write merges with the file that is there, if asked to, and writes. The lock
// keeps others out as far as locks reach; beyond that, a file that is another one
// just before it is replaced, or just after, is merged with again.
func (c *Config) write(t target, rec arrow.Record, key []string, out *stage.Outcome) (written, error) {
	key = slices.DeleteFunc(slices.Clone(key), func(k string) bool {
		_, optional := tree.Defaults[k]
		return !table.Has(rec, k) && !optional
	})
	for range mergeTries {
		w, artifact, moved, err := c.writeOnce(t, rec, key)
		if err != nil {
			return w, err
		}
		if moved {
			continue
		}
		out.Artifacts = append(out.Artifacts, artifact)
		out.Counts.Rows = artifact.Rows
		return w, nil
	}
	return written{}, fmt.Errorf("%s changed %d times while rows were merged into it: somebody else writes it whom locks do not reach; let one end first", t.path, mergeTries)
}

// writeOnce is one try; moved says that the file was changed by somebody else
// meanwhile.
func (c *Config) writeOnce(t target, rec arrow.Record, key []string) (w written, a stage.Artifact, moved bool, err error) {
	w = written{MergeReport: tree.MergeReport{Added: int(rec.NumRows())}}
	before := ""
	if c.merges() {
		data, err := os.ReadFile(t.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return w, a, false, fmt.Errorf("the file to merge with cannot be read, and nothing was changed: %w", atomic.Explain("read", t.path, err))
		default:
			before = atomic.Digest(data)
			old, err := tree.Decode(t.path, data)
			if err != nil {
				return w, a, false, fmt.Errorf("the file to merge with cannot be read, and nothing was changed: %w", err)
			}
			merged, rep, err := tree.Merge(old, rec, key)
			if err != nil {
				return w, a, false, fmt.Errorf("%s: %w", t.name, err)
			}
			rec, w.MergeReport, w.merged = merged, rep, true
		}
	}
	if t.format == CSV {
		if err := tree.CheckCSV(rec); err != nil {
			return w, a, false, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	digest, err := tree.WriteFile(t.path, rec, key, func() error {
		beforeReplace(t.path)
		if c.merges() && digestOf(t.path) != before {
			return errMoved
		}
		return nil
	})
	if err != nil {
		return w, a, errors.Is(err, errMoved), notMoved(err)
	}
	afterReplace(t.path)
	if c.merges() && digestOf(t.path) != digest {
		return w, a, true, nil
	}
	return w, stage.Artifact{Path: t.path, Digest: digest, Rows: int(rec.NumRows())}, false, nil
}

// digestOf is the digest of a file's bytes, "" where there is none to read.
func digestOf(path string) string {
	digest, err := tree.Digest(path)
	if err != nil {
		return ""
	}
	return digest
}

// sidecars writes what a folder of a database says about its tables.
// Rows that a merge kept come from where the sidecar said before.
func (c *Config) sidecars(t target, sets []*stage.Dataset, file stage.Artifact, from origin, kept int, partial string) error {
	dir := filepath.Dir(t.path)
	meta := filepath.Join(dir, tree.MetaFile)
	info := sets[0].Info
	rows := int64(file.Rows)
	entry := tree.TableMeta{
		CollectorRef: c.CollectorRef, CasePlanHash: casePlanHash(sets), CollectedAt: collectedAt(sets),
		Rows: &rows, Status: tree.Complete, DataHash: file.Digest,
	}
	if partial != "" || unanswered(sets) {
		entry.Status = tree.Partial
	}
	before, err := keptFrom(meta, t.place.Table, kept)
	if err != nil {
		return err
	}
	from = from.and(before)
	from.into(&entry)
	if from.collected > 0 {
		if entry.CollectorHash, err = collectorHash(sets); err != nil {
			return err
		}
	}
	rt := tree.Runtime{Framework: t.place.Backend, Version: t.place.Version, Image: info.Image, ImageDigest: info.ImageDigest}
	if err := tree.UpdateMeta(meta, rt, t.place.Table, entry); err != nil {
		return fmt.Errorf("the table is written, its sidecar is not: %w", err)
	}
	if len(c.Reuse) == 0 {
		return nil
	}
	if t.place.Family == "comm" {
		return fmt.Errorf("tables below comm are never reused across versions; remove the reuse blocks")
	}
	return tree.UpdateReuse(filepath.Join(dir, tree.ReuseFile), c.reuseEntries())
}

// unanswered says whether a planned case has no row although nothing says that
// the configuration cannot run.
func unanswered(sets []*stage.Dataset) bool {
	for _, ds := range sets {
		if ds.Ledger == nil {
			continue
		}
		class, err := table.Strings(ds.Ledger, "class")
		if err == nil && slices.ContainsFunc(class.Values, func(c string) bool { return c != "unsupported_config" }) {
			return true
		}
	}
	return false
}

// casePlanHash digests the ids of all planned cases; "" when no cases were
// planned, as for imported data.
func casePlanHash(sets []*stage.Dataset) string {
	var ids []string
	for _, ds := range sets {
		if ds.Planned == nil {
			return ""
		}
		col, err := table.Strings(ds.Planned, "case_id")
		if err != nil {
			return ""
		}
		ids = append(ids, col.Values...)
	}
	slices.Sort(ids)
	return tree.CasePlanHash(slices.Compact(ids))
}

// collectedAt is the date of the newest row; "" when rows carry no time.
func collectedAt(sets []*stage.Dataset) string {
	newest := ""
	for _, ds := range sets {
		col, err := table.Strings(ds.Table, "started_at")
		if err != nil {
			continue
		}
		for _, v := range col.Values {
			newest = max(newest, v)
		}
	}
	if len(newest) >= len("2006-01-02") {
		return newest[:len("2006-01-02")]
	}
	return ""
}

// collectorHash digests what measured: op, runtime, versions and environment.
// The host's name stays out, so that two nodes of a kind agree.
func collectorHash(sets []*stage.Dataset) (string, error) {
	type collector struct {
		Op, Runtime, Framework, Version, Device string
		Protocols                               []string
		Env                                     map[string]string
	}
	var all []collector
	for _, ds := range sets {
		if ds.Planned == nil {
			return "", nil
		}
		env := maps.Clone(ds.Info.Env)
		delete(env, "hostname")
		c := collector{ds.Info.Op, ds.Info.Runtime, ds.Info.Framework, ds.Info.Version, ds.Info.Device, nil, env}
		if col, err := table.Strings(ds.Table, "protocol"); err == nil {
			c.Protocols = slices.Compact(slices.Sorted(slices.Values(col.Values)))
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b collector) int { return cmp.Compare(a.Op, b.Op) })
	data, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	return atomic.Digest(data), nil
}

// systemSpec puts <system>.yaml beside the data folder, where readers look for
// it. A file that is there stays.
func (c *Config) systemSpec(rc *stage.RunContext, t target, out *stage.Outcome) error {
	if !c.SystemSpec || t.layout == tree.Flat {
		return nil
	}
	src, ok := systems.Source(t.place.System)
	if !ok {
		return fmt.Errorf("system_spec = true, and there is no built-in spec of %q; put %s.yaml beside the data folder yourself", t.place.System, t.place.System)
	}
	name := t.place.System + ".yaml"
	if c.Dir != "" {
		name = c.Dir + "/" + name
	}
	full, err := atomic.Within(rc.OutDir, name)
	if err != nil {
		return err
	}
	if _, err := os.Stat(full); err == nil {
		return nil
	}
	digest, err := atomic.WriteFile(full, src)
	if err == nil {
		out.Artifacts = append(out.Artifacts, stage.Artifact{Path: full, Digest: digest})
	}
	return err
}
