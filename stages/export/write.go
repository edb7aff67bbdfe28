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
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

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

	ix := tree.Index(key)
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

// stage puts the rows in their order. Rows that came from one file, and are all of
// the new one, keep the order that they had there.
func (a *assembly) stage(batch *fileutil.Batch, rec arrow.Record) (string, error) {
	if len(a.sets) == 1 && a.sets[0].Planned == nil && a.Kept == 0 {
		return tree.StageInOrder(batch, a.to.path, rec)
	}

	order := a.key
	if a.table != nil {
		order = a.table.FileOrder(order)
	}
	return tree.Stage(batch, a.to.path, rec, order)
}

// write merges with the existing file if the block asks for it, and writes the table and what belongs to it: all of
// them or none. It reports all errors before the first file gets its name. The caller holds the lock of the folder. The
// table is the first of the files.
func (a *assembly) write() (files []stage.Artifact, err error) {
	a.Added = table.Len(a.rec)
	rec, key := a.rec, a.key
	if a.merges() {
		data, err := fileutil.ReadFile(a.to.path)
		var old arrow.Record
		if err == nil {
			old, err = tree.Decode(a.to.path, data)
		}

		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("the file to merge with cannot be read, and nothing was changed: %w", err)
		default:
			if a.table != nil {
				// Also with the columns that only the file has: its rows may differ by them alone.
				key = a.table.KeyOf(old, rec)
			}

			if rec, a.MergeReport, err = tree.Merge(old, rec, key); err != nil {
				return nil, fmt.Errorf("%s: %w", a.to.name, err)
			}
			a.merged = true
		}
	}

	if err := a.doubt(rec, key); err != nil {
		return nil, err
	}

	if a.to.format == CSV {
		if err := tree.CheckCSV(rec); err != nil {
			return nil, fmt.Errorf("%s: %w", a.to.name, err)
		}
	}

	var batch fileutil.Batch
	defer batch.Discard()

	digest, err := a.stage(&batch, rec)
	if err != nil {
		return nil, err
	}

	files = []stage.Artifact{{Path: a.to.path, Digest: digest, Rows: table.Len(rec)}}
	if err := a.beside(&batch, &files); err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}
	return files, batch.Commit()
}

// beside stages what belongs to the table, which is the first of the files.
func (a *assembly) beside(batch *fileutil.Batch, files *[]stage.Artifact) error {
	if a.to.layout == tree.Families {
		if err := a.sidecars(batch, &(*files)[0]); err != nil {
			return err
		}
	}

	if declared := a.sets[0].Info.Declared; declared != nil && declared.Name == a.to.place.Table {
		schema := filepath.Join(filepath.Dir(a.to.path), catalog.SchemaFile(declared.Name))
		if err := restage(batch, schema, func([]byte) ([]byte, error) { return declared.Encode(), nil }); err != nil {
			return err
		}
	}

	spec, err := a.systemSpec(batch)
	if err == nil {
		(*files)[0].Beside, err = a.besideSpecs(batch)
	}
	*files = append(*files, spec...)
	return err
}

// sidecars stages the description of the tables in a folder of a database, and sets the entry of file. The sources of
// rows that a merge keeps stay.
func (a *assembly) sidecars(batch *fileutil.Batch, file *stage.Artifact) error {
	dir, place := filepath.Dir(a.to.path), a.to.place
	meta := filepath.Join(dir, tree.MetaFile)
	info := a.sets[0].Info
	rows := int64(file.Rows)
	entry := tree.TableMeta{
		CollectorRef: a.CollectorRef, CasePlanHash: casePlanHash(a.sets), CollectedAt: collectedAt(a.sets),
		Rows: &rows, Status: tree.Complete, DataHash: file.Digest,
	}
	if a.lacksCases() {
		entry.Status = tree.Partial
	}

	before, err := keptFrom(meta, place.Table, a.Kept)
	if err != nil {
		return err
	}

	from := a.from.and(before)
	from.into(&entry)
	if from.collected > 0 {
		entry.CollectorHash = collectorHash(a.sets)
	}

	rt := tree.Runtime{Framework: place.Backend, Version: place.Version, Image: info.Image, ImageDigest: info.ImageDigest}
	err = restage(batch, meta, func(data []byte) ([]byte, error) {
		u := tree.Update{Table: place.Table, Entry: entry, Schema: a.Sidecar, Kept: a.Kept}
		text, err := tree.NextMeta(data, meta, rt, u)
		if err == nil {
			file.Entry, err = tree.EntryDigest(text, place.Table)
		}
		return text, err
	})
	if err != nil || len(a.Reuse) == 0 {
		return err
	}

	reuse := filepath.Join(dir, tree.ReuseFile)
	return restage(batch, reuse, func(data []byte) ([]byte, error) {
		return tree.NextReuse(data, reuse, a.reuseEntries())
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

// lacksCases reports whether the data is partial, or a planned case has neither a row nor an unsupported
// configuration as the reason.
func (a *assembly) lacksCases() bool {
	for _, ds := range a.sets {
		for _, lost := range dedupe.LostCases(ds) {
			if lost.Class != "unsupported_config" {
				return true
			}
		}
	}
	return a.partial != ""
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
func (a *assembly) systemSpec(batch *fileutil.Batch) ([]stage.Artifact, error) {
	system := a.to.place.System
	if !a.SystemSpec || a.to.layout == tree.Flat {
		return nil, nil
	}

	src, ok := systems.Source(system)
	if !ok {
		return nil, errors.New(noSpec(system))
	}

	if a.Reader == ReaderOld {
		src = bytes.ReplaceAll(src, []byte("bfloat16_tc_flops:"), []byte("float16_tc_flops:"))
	}

	full, err := a.within(a.rc.OutDir, system+".yaml")
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
