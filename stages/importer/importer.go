// Package importer reads existing perf files as datasets: CSV and Parquet, all layouts, one file or a
// whole database. Differences from the description of the table are mapped if the catalog defines how, and
// always reported. Nothing is guessed.
package importer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/perf"
	"aicplan/sink/rules"
	"aicplan/sink/table"
)

//go:embed *.go
var source embed.FS

// Kind returns the import stage for registration.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "import",
		Class:   stage.Source,
		Version: 2,
		Code:    stage.CodeOf(source, catalog.Source, perf.Source, rules.Source),
		Beside: map[string]string{
			"path": "the digests of the files identify the data, so the files may move",
		},
		Summary: "read existing perf files as a dataset",
		Outputs: map[string]cty.Type{
			// number of files read
			"files": cty.Number,
			// number of differences from the catalog
			"drift": cty.Number,
		},
		New: func() stage.Stage { return &Config{} },
	}
}

// Config is an import block.
type Config struct {
	// Path is a perf file or a folder of perf files, relative to the plan's folder.
	Path string `hcl:"path"`
	// Table selects the perf table in a folder, and names it if the file does not.
	Table string `hcl:"table,optional"`
	// System (reference or string) selects the files of a system in a folder.
	System cty.Value `hcl:"system,optional"`
	// Backend selects the files of a backend in a folder.
	Backend string `hcl:"backend,optional"`
	// Version selects the files of a version in a folder.
	Version string `hcl:"version,optional"`
	// Framework fills the column framework of old files that lack it.
	Framework string `hcl:"framework,optional"`
	// FrameworkVersion fills the column version of old files that lack it.
	FrameworkVersion string `hcl:"framework_version,optional"`
	// Device fills the column device of old files that lack it.
	Device string `hcl:"device,optional"`

	tables *catalog.Catalog
}

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	c.tables = cc.Tables

	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)
	if strings.TrimSpace(c.Path) == "" {
		bad("Empty path", "path names a perf file or a folder of them.")
	}

	if c.Table != "" {
		if _, ok := cc.Tables.Lookup(c.Table); !ok {
			bad("Unknown table", "There is no perf table %q.%s", c.Table, cc.Tables.DidYouMean(c.Table))
		}
	}

	if _, err := stage.SystemName(c.System); err != nil {
		bad("Wrong system", "%s", err)
	}

	return diags
}

// Inputs returns nil: an import reads no stage.
func (c *Config) Inputs() []stage.Input { return nil }

// Values implements stage.Valuer. Only the name of a system counts, because it selects files and labels
// rows.
func (c *Config) Values() map[string]any {
	out := stage.Fields(c)
	if system, _ := stage.SystemName(c.System); system != "" {
		out["system"] = system
	}
	return out
}

// Plan reads the files, because the rows are available at plan time.
func (c *Config) Plan(_ context.Context, pc *stage.PlanContext) (*stage.Plan, hcl.Diagnostics) {
	path := c.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(pc.PlanDir, filepath.FromSlash(path))
	}

	system, _ := stage.SystemName(c.System)
	set, err := Load(path, Options{
		Table: c.Table, System: system, Backend: c.Backend, Version: c.Version,
		Framework: c.Framework, FrameworkVersion: c.FrameworkVersion, Device: c.Device, Tables: c.tables,
	})
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(c.Path) {
		return nil, stage.ErrorAt(pc.Range, "Import failed", "%v; %q is relative to the folder of the plan", err, c.Path)
	}
	if err != nil {
		return nil, stage.ErrorAt(pc.Range, "Import failed", "%v", err)
	}

	return &stage.Plan{
		Action: stage.ActionReuse,
		Reason: fmt.Sprintf("%s of %s", textutil.Some(table.Len(set.Data.Table), "row"),
			textutil.Some(len(set.Files), "file")),
		KeyExtra: set.digests(),
		Data:     set.Data,
		Private:  set,
		Notes:    set.Drift,
	}, nil
}

// Run passes the rows on and reports what was mapped.
func (c *Config) Run(_ context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	if rc.Plan == nil || rc.Plan.Private == nil {
		return nil, fmt.Errorf("import %s was not planned", rc.Address)
	}

	set := rc.Plan.Private.(*Set)
	out := &stage.Outcome{Status: stage.StatusOK, Data: rc.Plan.Data}
	out.Counts.Rows = table.Len(set.Data.Table)
	check := stage.CheckResult{Name: "drift", Severity: "warn", Result: "pass",
		Message: "no difference from the description of the tables, in " + textutil.Some(len(set.Files), "file")}

	if lines := set.Drift; len(lines) > 0 {
		check.Result = "warn"
		check.Message = textutil.Some(len(lines), "difference") + " from the description of the table, mapped or kept"
		check.Rows = lines[:min(len(lines), 20)]
	}

	out.Checks = []stage.CheckResult{check}
	out.Values = map[string]cty.Value{
		"files": cty.NumberIntVal(int64(len(set.Files))),
		"drift": cty.NumberIntVal(int64(len(set.Drift))),
	}

	return out, nil
}

// digests returns the digests of the files, for the checkpoint key.
func (s *Set) digests() []string {
	var out []string
	for _, f := range s.Files {
		out = append(out, f.Digest)
	}
	if d := s.Data.Info.Declared; d != nil {
		out = append(out, fileutil.Digest(d.Encode()))
	}
	slices.Sort(out)
	return out
}
