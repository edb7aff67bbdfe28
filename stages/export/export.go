package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// target is one file to write.
type target struct {
	layout tree.Layout
	place  tree.Place
	format string
	name   string // relative to the output folder, slash-separated
	path   string // absolute
}

// Run writes the file and, in a database, its sidecars. Two runs on the same
// data write the same bytes.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	out, err := c.run(ctx, rc)
	if place := rc.Place(rc.Range); err != nil && place != "" {
		err = fmt.Errorf("%w (%s)", err, place)
	}
	return out, err
}

func (c *Config) run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	sets, err := c.datasets(rc)
	if err != nil {
		return nil, err
	}

	partial := "" // why one of the datasets lacks cases; see stage.Info
	for _, ds := range sets {
		partial = cmp.Or(partial, ds.Info.Partial)
	}

	switch {
	case partial == "" || c.AllowPartial:
	case partial == "smoke" || partial == "limit":
		return &stage.Outcome{Status: stage.StatusSkipped, NoReuse: true, Message: fmt.Sprintf(
			"nothing exported: the rows are a sample (--%s); allow_partial = true exports them as partial", partial)}, nil
	default:
		const text = "nothing was written: the data lacks cases (%s); collect the rest, or set allow_partial = true"
		return nil, fmt.Errorf(text, partial)
	}

	if c.attached() {
		return c.runAttached(ctx, rc, sets)
	}

	sh, place, err := c.destination(sets[0].Info)
	if err != nil {
		return nil, err
	}

	a := &assembly{Config: c, rc: rc, shape: sh, sets: sets, partial: partial}
	if err := a.join(); err != nil {
		return nil, err
	}

	var leftOut []string
	if c.Reader == ReaderOld {
		if a.rec, leftOut, err = forOldReaders(a.rec, sh.table); err != nil {
			return nil, err
		}
	}

	if err := oneOrigin(a.rec, c.Layout); err != nil {
		return nil, fmt.Errorf("nothing was written: %w", err)
	}

	if a.to, err = c.target(tree.PlaceOf(place), partial != ""); err == nil {
		a.to.path, err = fileutil.Place(rc.OutDir, a.to.name)
	}
	if err != nil {
		return nil, err
	}

	if rc.Claim != nil {
		if other := rc.Claim(a.to.path); other != "" {
			return nil, fmt.Errorf("nothing was written: %s is the file of %s, and one would replace the other; give one "+
				"another dir or file, or join them in one export", a.to.path, other)
		}
	}

	a.key = keyOf(sets[0], sh, a.rec)
	out := &stage.Outcome{Status: stage.StatusOK, Data: sets[0]}
	writing := func() error {
		return locked(ctx, rc, filepath.Dir(a.to.path), func() (err error) {
			out.Artifacts, err = a.write()
			return err
		})
	}
	if c.Current || len(c.AttentionLanes) > 0 {
		err = locked(ctx, rc, filepath.Join(rc.OutDir, filepath.FromSlash(c.Dir)), writing) // others write these files too
	} else {
		err = writing()
	}

	if err != nil {
		return nil, err
	}

	out.Counts.Rows = out.Artifacts[0].Rows
	out.Checks = a.doubts
	for _, text := range a.words {
		out.Checks = append(out.Checks, warning("words", "%s", text))
	}

	if a.dropped != "" {
		out.Checks = append(out.Checks, warning("power", "%s", a.dropped))
	}

	if len(leftOut) > 0 {
		w := warning("left_out", "%d kinds of rows are not in the file, because the readers of %s cannot take them",
			len(leftOut), ReaderOld)
		w.Rows = leftOut[:min(len(leftOut), 20)]
		out.Checks = append(out.Checks, w)
	}

	for _, n := range a.lacks {
		rc.Events.Message(rc.Address, "info", n)
	}

	out.Message = fmt.Sprintf("%s: %s, %s", a.to.name, textutil.Counted(out.Counts.Rows, "row"), out.Artifacts[0].Digest)
	if a.merged {
		out.Message += " (" + a.Text() + ")"
	}
	out.Message += a.from.text()
	out.Values = map[string]cty.Value{
		"path":  cty.StringVal(a.to.path),
		"added": cty.NumberIntVal(int64(a.Added)),
	}

	return out, nil
}

func (c *Config) datasets(rc *stage.RunContext) ([]*stage.Dataset, error) {
	var sets []*stage.Dataset
	for i, in := range c.Inputs() {
		ds := rc.Inputs[inputName(i)]
		if ds == nil || table.Len(ds.Table) == 0 {
			return nil, fmt.Errorf("%s has no rows to export", in.Ref.Address)
		}
		sets = append(sets, ds)
	}

	return sets, nil
}

// destination returns the table of rows and its place in a database.
func (c *Config) destination(info stage.Info) (shape, tree.Place, error) {
	sh := shape{power: c.Power, backend: c.Backend, strict: c.Layout != tree.Flat}
	if b, ok := catalog.BackendOf(info.Framework); ok && sh.backend == "" {
		sh.backend = b.Name
	}

	place := tree.Place{Table: tableOf(c.Table, info), Backend: sh.backend, Version: cmp.Or(c.Version, info.Version)}
	if t, ok := info.Tables().Lookup(place.Table); ok {
		sh.table, place.Family = t, t.Family
	}

	system, err := stage.SystemName(c.System)
	if place.System = cmp.Or(system, info.System); err == nil && sh.strict && sh.table == nil {
		err = fmt.Errorf(
			"the layout %q takes perf tables only, and the op %q has none; name one with \"table\", or use the layout \"flat\"",
			c.Layout,
			info.Op,
		)
	}
	return sh, place, err
}

// target names the file.
func (c *Config) target(place tree.Place, partial bool) (target, error) {
	t := target{layout: c.Layout, place: place, format: c.Format}
	if t.format == "" {
		t.format = CSV
		if t.layout == tree.Families || strings.HasSuffix(c.File, ".parquet") {
			t.format = Parquet
		}
	}

	ext := ".txt"
	if t.format == Parquet {
		ext = ".parquet"
	}

	file := c.File
	if file == "" {
		if place.Table == "" {
			return t, fmt.Errorf("the data belongs to no perf table; give the file a name with \"file\"")
		}
		file = place.Table + ext
	}

	dir, err := t.layout.Dir(place)
	if err != nil {
		return t, fmt.Errorf("%w; set it in the export block", err)
	}

	if partial && t.layout != tree.Families {
		file = PartialName(file)
	}

	t.name = path.Join(c.Dir, dir, file)
	return t, nil
}

// within returns the path of a file below the folder of the block.
func (c *Config) within(outDir, name string) (string, error) {
	return fileutil.Within(outDir, path.Join(c.Dir, name))
}

// keyOf returns the columns that identify a row, without those that rec lacks and for which readers assume no value.
func keyOf(ds *stage.Dataset, sh shape, rec arrow.Record) []string {
	key := dedupe.KeyColumns(ds)
	if sh.table != nil {
		key = sh.table.KeyOf(rec)
	}
	return slices.DeleteFunc(slices.Clone(key), func(k string) bool {
		_, optional := tree.Defaults[k]
		return !table.Has(rec, k) && !optional
	})
}

// locked calls do while no other goroutine or process writes into a folder: tables of one
// folder share a sidecar, and files are merged.
func locked(ctx context.Context, rc *stage.RunContext, dir string, do func() error) error {
	unlock, err := fileutil.LockFolder(ctx, dir,
		fileutil.Self("aicplan apply: "+rc.Address, filepath.Base(rc.RunDir), time.Now()))
	if err != nil {
		return err
	}
	return errors.Join(do(), unlock())
}

// join brings every dataset to the perf file's form and joins them.
func (a *assembly) join() error {
	var recs []arrow.Record
	for _, ds := range a.sets {
		rec, err := a.rows(ds)
		if err != nil {
			return err
		}
		if err := a.fit(rec, keyOf(ds, a.shape, rec)); err != nil {
			return fmt.Errorf("nothing was written: %w", err)
		}
		recs = append(recs, rec)
	}

	var err error
	if a.rec, err = join(recs); err == nil {
		err = apart(recs, keyOf(a.sets[0], a.shape, a.rec))
	}
	return err
}
