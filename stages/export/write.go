package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// written counts the rows of a written file.
type written struct {
	tree.MergeReport
	merged bool
	doubts []stage.CheckResult
}

func (w written) text(name string, a stage.Artifact) string {
	s := fmt.Sprintf("%s: %s, %s", name, textutil.Counted(a.Rows, "row"), a.Digest)
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
			return nil, fmt.Errorf(
				"the inputs have different columns: %v and %v; measure them alike, or export them separately",
				names,
				other,
			)
		}
	}

	return table.Concat(recs...)
}

// apart makes sure that no two inputs have a row of one key: readers would take
// the first, and which one that is would follow from the order of a list.
func apart(recs []arrow.Record, key []string) error {
	if len(recs) < 2 {
		return nil
	}

	ix := table.NewKeyIndex(key, table.KeyOptions{Missing: tree.Defaults})
	twice, example := 0, ""
	for _, rec := range recs {
		before := ix.Len()
		for row, id := range ix.Number(rec) {
			if int(id) >= before {
				continue
			}
			if twice++; twice == 1 {
				example = table.Describe(rec, row, key)
			}
		}
	}

	if twice > 0 {
		return fmt.Errorf(
			"%d rows of the inputs have a key that an input before them has too, for example %s; readers would see one of "+
				"them only. Put them through one dedupe, or export them separately",
			twice,
			example,
		)
	}

	return nil
}

// payload is what an export writes.
type payload struct {
	sets    []*stage.Dataset
	rec     arrow.Record
	key     []string
	from    origin
	partial string
}

// stage puts the rows in their order. Rows that came from one file, and are all of
// the new one, keep the order that they had there.
func (d payload) stage(batch *fileutil.Batch, t target, rec arrow.Record, w written) (string, error) {
	if len(d.sets) == 1 && d.sets[0].Planned == nil && w.Kept == 0 {
		return tree.StageInOrder(batch, t.path, rec)
	}

	order := d.key
	if t.table != nil {
		order = t.table.FileOrder(d.key)
	}
	return tree.Stage(batch, t.path, rec, order)
}

// write merges with the existing file if the block asks for it, and writes the table and what belongs to it: all of
// them or none. It reports all errors before the first file gets its name. The caller holds the lock of the folder. The
// table is the first of the files.
func (c *Config) write(rc *stage.RunContext, t target, d payload) (w written, files []stage.Artifact, err error) {
	w = written{MergeReport: tree.MergeReport{Added: table.Len(d.rec)}}
	rec, key := d.rec, d.key
	if c.merges() {
		data, err := fileutil.ReadFile(t.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return w, nil, fmt.Errorf("the file to merge with cannot be read, and nothing was changed: %w", err)
		default:
			old, err := tree.Decode(t.path, data)
			if err != nil {
				return w, nil, fmt.Errorf("the file to merge with cannot be read, and nothing was changed: %w", err)
			}

			if t.table != nil {
				// Also with the columns that only the file has: its rows may differ by them alone.
				key = t.table.KeyOf(old, rec)
			}

			merged, rep, err := tree.Merge(old, rec, key)
			if err != nil {
				return w, nil, fmt.Errorf("%s: %w", t.name, err)
			}

			rec, w.MergeReport, w.merged = merged, rep, true
		}
	}

	if w.doubts, err = doubts(rec, key, t, w.merged); err != nil {
		return w, nil, err
	}

	if t.format == CSV {
		if err := tree.CheckCSV(rec); err != nil {
			return w, nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}

	var batch fileutil.Batch
	defer batch.Discard()

	digest, err := d.stage(&batch, t, rec, w)
	if err != nil {
		return w, nil, err
	}

	files = []stage.Artifact{{Path: t.path, Digest: digest, Rows: table.Len(rec)}}

	if t.layout == tree.Families {
		if err := c.sidecars(&batch, t, d, &files[0], w.Kept); err != nil {
			return w, nil, fmt.Errorf("nothing was written: %w", err)
		}
	}

	if declared := d.sets[0].Info.Declared; declared != nil && declared.Name == t.place.Table {
		schema := filepath.Join(filepath.Dir(t.path), catalog.SchemaFile(declared.Name))
		err := restage(&batch, schema, func([]byte) ([]byte, error) { return declared.Encode(), nil })
		if err != nil {
			return w, nil, fmt.Errorf("nothing was written: %w", err)
		}
	}

	spec, err := c.systemSpec(&batch, rc, t)
	if err == nil {
		files[0].Beside, err = c.besideSpecs(&batch, rc, t, d.partial != "" || unanswered(d.sets))
	}

	if err != nil {
		return w, nil, fmt.Errorf("nothing was written: %w", err)
	}

	return w, append(files, spec...), batch.Commit()
}

// sidecars stages the description of the tables in a folder of a database, and sets the entry of file. The sources of
// rows that a merge keeps stay.
func (c *Config) sidecars(batch *fileutil.Batch, t target, d payload, file *stage.Artifact, kept int) error {
	dir := filepath.Dir(t.path)
	meta := filepath.Join(dir, tree.MetaFile)
	info := d.sets[0].Info
	rows := int64(file.Rows)
	entry := tree.TableMeta{
		CollectorRef: c.CollectorRef, CasePlanHash: casePlanHash(d.sets), CollectedAt: collectedAt(d.sets),
		Rows: &rows, Status: tree.Complete, DataHash: file.Digest,
	}
	if d.partial != "" || unanswered(d.sets) {
		entry.Status = tree.Partial
	}

	before, err := keptFrom(meta, t.place.Table, kept)
	if err != nil {
		return err
	}

	from := d.from.and(before)
	from.into(&entry)

	if from.collected > 0 {
		entry.CollectorHash = collectorHash(d.sets)
	}

	rt := tree.Runtime{Framework: t.place.Backend, Version: t.place.Version, Image: info.Image,
		ImageDigest: info.ImageDigest}
	err = restage(batch, meta, func(data []byte) ([]byte, error) {
		u := tree.Update{Table: t.place.Table, Entry: entry, Schema: c.Sidecar, Kept: kept}
		text, err := tree.NextMeta(data, meta, rt, u)
		if err == nil {
			file.Entry, err = tree.EntryDigest(text, t.place.Table)
		}
		return text, err
	})
	if err != nil || len(c.Reuse) == 0 {
		return err
	}

	reuse := filepath.Join(dir, tree.ReuseFile)
	return restage(batch, reuse, func(data []byte) ([]byte, error) {
		return tree.NextReuse(data, reuse, c.reuseEntries())
	})
}

// restage stages a file's next text, unless it is the one that is there.
func restage(batch *fileutil.Batch, path string, next func(data []byte) ([]byte, error)) error {
	data, err := fileutil.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	text, err := next(data)
	if err != nil || bytes.Equal(text, data) {
		return err
	}

	_, err = batch.Stage(path, fileutil.Bytes(text))
	return err
}

// unanswered reports whether a planned case has neither a row nor an unsupported
// configuration as the reason.
func unanswered(sets []*stage.Dataset) bool {
	for _, ds := range sets {
		for _, lost := range dedupe.LostCases(ds) {
			if lost.Class != "unsupported_config" {
				return true
			}
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

	return newest[:min(len(newest), len(time.DateOnly))]
}

// collectorHash digests what measured: op, runtime, versions and environment.
// The host's name stays out, so that two nodes of a kind agree.
func collectorHash(sets []*stage.Dataset) string {
	type collector struct {
		Op, Runtime, Framework, Version, Device string
		Protocols                               []string
		Env                                     map[string]string
	}

	var all []collector
	for _, ds := range sets {
		if ds.Planned == nil {
			return ""
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
	data, _ := json.Marshal(all) // texts only
	return fileutil.Digest(data)
}

// noSpec returns the message that a system has no built-in spec.
func noSpec(system string) string {
	return fmt.Sprintf(
		"system_spec = true, and there is no built-in spec of %q; put %s.yaml next to the data folder yourself",
		system,
		system,
	)
}

// systemSpec stages <system>.yaml next to the data folder, where readers look for
// it. A file that is there stays.
func (c *Config) systemSpec(batch *fileutil.Batch, rc *stage.RunContext, t target) ([]stage.Artifact, error) {
	if !c.SystemSpec || t.layout == tree.Flat {
		return nil, nil
	}

	src, ok := systems.Source(t.place.System)
	if !ok {
		return nil, errors.New(noSpec(t.place.System))
	}

	if c.Reader == ReaderOld {
		src = bytes.ReplaceAll(src, []byte("bfloat16_tc_flops:"), []byte("float16_tc_flops:"))
	}

	full, err := c.within(rc.OutDir, t.place.System+".yaml")
	if err != nil {
		return nil, err
	}

	// A spec that exists stays: it is the user's, or that of an interrupted run. It is a file
	// of the export in any case, so that a publish includes it.
	switch data, err := fileutil.ReadText(full); {
	case err == nil:
		return []stage.Artifact{{Path: full, Digest: fileutil.Digest(data)}}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fileutil.Explain("read", full, err)
	}

	digest, err := batch.Stage(full, fileutil.Bytes(src))
	return []stage.Artifact{{Path: full, Digest: digest}}, err
}
