// Package export writes datasets as perf files: flat, or in the folders of an
// aiconfigurator database with its sidecars.
package export

import (
	"embed"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/experiment"
	"aicplan/sink/perf"
	"aicplan/sink/tree"
	"aicplan/systems"
)

//go:embed *.go
var source embed.FS

// Kind registers the export stage.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "export",
		Class:   stage.Sink,
		Version: 3,
		Code:    stage.CodeOf(source, tree.Source, perf.Source, catalog.Source, experiment.Source, systems.Code),
		Summary: "write a dataset as perf files",
		Demands: []string{"kernel_source"},
		Outputs: map[string]cty.Type{
			// path of the file
			"path": cty.String,
			// number of rows with new keys
			"added": cty.Number,
		},
		New: func() stage.Stage { return &Config{Layout: tree.Flat, Power: PowerAuto, Reader: ReaderToday} },
	}
}

// Formats of the files.
const (
	CSV     = "csv"
	Parquet = "parquet"
)

// What to do with the power columns.
const (
	PowerAuto  = "auto" // where every row has them
	PowerNever = "never"
	PowerNeed  = "require" // refuse data without them
)

// Config is an export block.
type Config struct {
	// Value (reference or list of references) is the table, or the tables that fill one file together.
	Value cty.Value `hcl:"input"`
	// Layout is "flat" (one file), "systems" (`data/SYSTEM/BACKEND/VERSION/TABLE.txt`), "families"
	// (`data/SYSTEM/FAMILY/BACKEND/VERSION/TABLE.parquet` and sidecars), "aiperf" (the files of AIPerf, for rows of an
	// endpoint) or "experiment" (a folder for each cell, a table and plots, for rows of a server).
	Layout tree.Layout `hcl:"layout,optional"`
	// Format is "csv" or "parquet". The default is that of the layout and of the extension of file.
	Format string `hcl:"format,optional"`
	// Dir is a folder below `--out-dir`.
	Dir string `hcl:"dir,optional"`
	// File is the name of the file in the flat layout. The default is the name of the table.
	File string `hcl:"file,optional"`
	// Table is the name of the perf table if the data does not name it.
	Table string `hcl:"table,optional"`
	// Power is "auto" (power columns if every row has them), "never" or "require" (an error if a row lacks them).
	Power string `hcl:"power,optional"`
	// System (reference or string) is the system folder of a database. The default is the system of the data.
	System cty.Value `hcl:"system,optional"`
	// Backend is the backend folder of a database. The default is the framework of the data.
	Backend string `hcl:"backend,optional"`
	// Version is the version folder of a database. The default is the version of the data.
	Version string `hcl:"version,optional"`
	// Merge keeps rows of an existing file whose keys the data lacks. The default is true in databases, false in the
	// flat layout.
	Merge *bool `hcl:"merge,optional"`
	// AllowPartial writes data that lacks cases (after `--limit`, `--smoke`, an interrupt or a stopped ramp), marked as
	// partial in the name of the file or in the sidecar. Otherwise a sample is skipped, and other partial data is an
	// error.
	AllowPartial bool `hcl:"allow_partial,optional"`
	// SystemSpec writes the system's spec beside the data of a database if there is none.
	SystemSpec bool `hcl:"system_spec,optional"`
	// Current makes the version the current one of its system and backend in query_versions.yaml. Partial data is an
	// error.
	Current bool `hcl:"current,optional"`
	// AttentionLanes has the attention kernels that the framework chooses by itself, by SM, such as `{ "90" = "fa3" }`,
	// for attention_lane_defaults.yaml.
	AttentionLanes map[string]string `hcl:"attention_lanes,optional"`
	// Reader is "today", or "0.4" to leave out, and list, rows that aiconfigurator up to 0.5 cannot read.
	Reader string `hcl:"reader,optional"`
	// CollectorRef is the git commit of the collector, for the sidecar.
	CollectorRef string `hcl:"collector_ref,optional"`
	// Sidecar is the schema of collection_meta.yaml: 1, or 2 with an event for each collection. The default is that of
	// the existing file, else 1.
	Sidecar int `hcl:"sidecar,optional"`
	// Card (object) sets fields of the workload cards of the layout experiment, by their path or its last part, such as
	// `{ contributor = "A. Name", bandwidth_gbps = [200, 7200] }`.
	Card cty.Value `hcl:"card,optional"`
	// Cards (object) has such objects for single cells, by experiment_id: `{ "E1.1" = { description = "baseline" } }`.
	// They override those of card.
	Cards cty.Value `hcl:"cards,optional"`
	// Reuse (labelled blocks) names a table that another version of the backend provides, for reuse.yaml.
	Reuse []ReuseBlock `hcl:"reuse,block"`
}

// ReuseBlock is an entry of reuse.yaml.
type ReuseBlock struct {
	Table string `hcl:"table,label"`
	// FromVersion is the version that has the table.
	FromVersion string `hcl:"from_version"`
	// Reason is why the table can be reused.
	Reason string `hcl:"reason"`
	// ApprovedBy is the person who approved the reuse.
	ApprovedBy string    `hcl:"approved_by"`
	Range      hcl.Range `hcl:",def_range"`
}

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)
	if list, err := stage.RefsOf(c.Value); err != nil {
		bad("Wrong input", "%s", err)
	} else if len(list) == 0 {
		bad("Wrong input", "input is an empty list; at least one stage is needed")
	}

	if !slices.Contains(tree.Layouts, c.Layout) && !c.attached() {
		bad(
			"Unknown layout",
			"layout is %q; it must be \"flat\", \"systems\", \"families\", \"aiperf\" or \"experiment\".",
			c.Layout,
		)
	}

	if (c.Current || len(c.AttentionLanes) > 0) && c.Layout != tree.Families {
		bad("Beside no database", "current and attention_lanes write files that readers of the layout \"families\" look for.")
	}

	for _, sm := range slices.Sorted(maps.Keys(c.AttentionLanes)) {
		if n, err := strconv.Atoi(sm); err != nil || n < 50 || n > 999 || c.AttentionLanes[sm] == "" {
			bad(
				"Wrong lane",
				"attention_lanes has %q = %q; write the SM and the kernel, such as \"90\" = \"fa3\".",
				sm,
				c.AttentionLanes[sm],
			)
		}
	}

	if c.Sidecar < 0 || c.Sidecar > 2 {
		bad("Unknown schema", "sidecar is %d; collection_meta.yaml has the schemas 1 and 2.", c.Sidecar)
	}

	if c.Sidecar == 2 && c.CollectorRef == "" {
		bad("No evidence", "Schema 2 of collection_meta.yaml names the collector's commit: set collector_ref.")
	}

	if (stage.Plain(c.Card) != nil || stage.Plain(c.Cards) != nil) && c.Layout != Experiment {
		bad("Card without use", "Only the layout \"experiment\" writes workload cards.")
	}

	for _, problem := range c.checkCard() {
		bad("Unknown field", "%s", problem)
	}

	if c.attached() && (c.File != "" || c.Format != "" || c.Table != "" || c.Merge != nil) {
		bad(
			"Words without use",
			"The layout %q writes files under their own names and merges none; remove file, format, table and merge.",
			c.Layout,
		)
	}

	if c.Format != "" && c.Format != CSV && c.Format != Parquet {
		bad("Unknown format", "format is %q; it must be \"csv\" or \"parquet\".", c.Format)
	}

	for _, name := range []string{c.File, c.Dir} {
		if name != "" && !filepath.IsLocal(name) {
			bad("Path outside the output folder",
				"%q leads out of the output folder; exports stay inside of it. Choose the folder with --out-dir.", name)
		} else if why := fileutil.BadName(name); why != "" {
			bad("Unusable name", "%q %s.", name, why)
		}
	}

	if strings.HasSuffix(c.File, "/") {
		bad("Unusable name", "file is %q, which names a folder; set the folder with \"dir\".", c.File)
	}

	if c.File != "" && c.Format != "" && strings.HasSuffix(c.File, ".parquet") != (c.Format == Parquet) {
		bad(
			"File and format disagree",
			"The file %q does not have the extension of the format %q; Parquet files end in .parquet, CSV files in .txt or "+
				".csv.",
			c.File,
			c.Format,
		)
	}

	if ext := filepath.Ext(c.File); c.Format == "" && !slices.Contains([]string{"", ".txt", ".csv", ".parquet"}, ext) {
		bad(
			"Unknown extension",
			"The extension of %q names no format that there is: .txt and .csv are CSV, .parquet is Parquet.",
			c.File,
		)
	}

	if !slices.Contains([]string{PowerAuto, PowerNever, PowerNeed}, c.Power) {
		bad("Unknown power", "power is %q; it must be \"auto\", \"never\" or \"require\".", c.Power)
	}

	if c.Layout != tree.Flat && c.File != "" {
		bad(
			"File without use",
			"The layout %q names its files after their tables; leave \"file\" out, or use the layout \"flat\".",
			c.Layout,
		)
	}

	switch {
	case c.Reader != ReaderToday && c.Reader != ReaderOld:
		bad("Unknown reader", "reader is %q; it must be %q or %q.", c.Reader, ReaderToday, ReaderOld)
	case c.Reader == ReaderOld && (c.Layout == tree.Families || c.Format == Parquet):
		bad(
			"Reader and layout disagree",
			"The readers of %s know CSV files only: use the layout \"systems\" or \"flat\" with CSV.",
			ReaderOld,
		)
	}

	if c.Table != "" {
		if _, ok := cc.Tables.Lookup(c.Table); !ok {
			bad("Unknown table", "There is no perf table %q. A table block declares one (aicplan help table).%s", c.Table,
				cc.Tables.DidYouMean(c.Table))
		}
	}

	if c.Layout != tree.Families && len(c.Reuse) > 0 {
		bad("Reuse without use", "Only the layout \"families\" has a reuse.yaml.")
	}

	for i, e := range c.reuseEntries() {
		if err := e.Check(); err != nil {
			stage.AddError(&diags, c.Reuse[i].Range, "Incomplete reuse", "%v", err)
		}
	}

	return diags
}

// attached reports whether the layout writes the attachments of rows instead of a table.
func (c *Config) attached() bool { return c.Layout == AIPerf || c.Layout == Experiment }

// Inputs are the datasets that fill the table, in their order.
func (c *Config) Inputs() []stage.Input {
	list, err := stage.RefsOf(c.Value)
	if err != nil {
		return nil // Check reports it
	}

	var in []stage.Input
	for i, r := range list {
		in = append(in, stage.Input{Name: inputName(i), Ref: r})
	}
	return in
}

func inputName(i int) string {
	if i == 0 {
		return "input"
	}
	return fmt.Sprintf("input%d", i+1)
}

func (c *Config) merges() bool {
	if c.Merge != nil {
		return *c.Merge
	}
	return c.Layout != tree.Flat
}

func (c *Config) reuseEntries() []tree.ReuseEntry {
	var out []tree.ReuseEntry
	for _, r := range c.Reuse {
		out = append(out, tree.ReuseEntry{Table: catalog.Stem(r.Table), FromVersion: r.FromVersion, Reason: r.Reason,
			ApprovedBy: r.ApprovedBy})
	}
	return out
}
