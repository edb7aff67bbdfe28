// Package report writes the report of a run: a self-contained HTML file and the same in
// Markdown. It is written even if a gate stopped the data.
package report

import (
	"embed"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/systems"
)

//go:embed *.go charts/*.go model/*.go model/glance.txt page/*.go page/assets
var source embed.FS

// Kind registers the report stage.
func Kind() stage.Kind {
	return stage.Kind{
		Name:    "report",
		Class:   stage.Report,
		Version: 2,
		Code:    stage.CodeOf(source, rules.Source, catalog.Source, systems.Code),
		Summary: "write the results of the run as HTML and Markdown",
		Outputs: map[string]cty.Type{
			// path of the first file
			"path": cty.String,
			// word with which the report begins
			"verdict": cty.String,
		},
		New: func() stage.Stage {
			return &Config{File: "report", Format: []string{"html", "markdown"}}
		},
	}
}

// extensions of the formats.
var extensions = map[string]string{"html": ".html", "markdown": ".md", "json": ".json"}

// Config is a report block.
type Config struct {
	// Title is the title of the report.
	Title string `hcl:"title,optional"`
	// Value (reference, list or object) is the stages whose tables are described.
	Value cty.Value `hcl:"inputs"`
	// Reference (reference, list or object) is tables to compare with. Each is compared with the input of the same
	// perf table.
	Reference cty.Value `hcl:"reference,optional"`
	// File is the name below `--out-dir`, without an extension.
	File string `hcl:"file,optional"`
	// Format lists the formats of the files: "html", "markdown" and "json".
	Format []string `hcl:"format,optional"`

	inputs, references []*stage.Ref
}

// Files implements stage.FileWriter.
func (c *Config) Files(stage.Forecasts, bool) []string {
	var out []string
	for _, f := range c.Format {
		if ext := extensions[f]; ext != "" && !slices.Contains(out, c.base()+ext) {
			out = append(out, c.base()+ext)
		}
	}
	return out
}

// Target implements stage.FileWriter. A report writes no table.
func (c *Config) Target(stage.Forecasts) string { return "" }

// Check validates the config.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)
	var err error
	if c.inputs, err = stage.RefsOf(c.Value); err != nil {
		bad("Wrong reference", "inputs: %s.", err)
	} else if len(c.inputs) == 0 {
		bad("No input", "inputs is empty, so the report would describe no table; name stages, such as [collect.gemm].")
	}

	if stage.IsSet(c.Reference) {
		if c.references, err = stage.RefsOf(c.Reference); err != nil {
			bad("Wrong reference", "reference: %s.", err)
		}
	}

	if !filepath.IsLocal(c.File) {
		bad("Path outside the output folder", "%q leads out of the output folder; reports stay inside of it. Choose the "+
			"folder with --out-dir.", c.File)
	} else if why := fileutil.BadName(c.File); why != "" {
		bad("Unusable name", "%q %s.", c.File, why)
	}

	if len(c.Format) == 0 {
		bad("No format", "format is empty, so the report would write nothing; give html, markdown or json.")
	}

	for _, f := range c.Format {
		if extensions[f] == "" {
			bad("Unknown format", "There is no format %q; the formats are html, markdown and json.", f)
		}
	}

	return diags
}

// Inputs are the tables, then the references.
func (c *Config) Inputs() []stage.Input {
	return append(stage.InputsOf("inputs", c.inputs, false), stage.InputsOf("reference", c.references, true)...)
}

// Values implements stage.Valuer. References are inputs too; here they stand for
// later reports of the run.
func (c *Config) Values() map[string]any {
	out := stage.Fields(c)
	if refs := c.statement().References; refs != nil {
		out["references"] = refs
	}
	return out
}

// statement returns the author's text, for this report and for later reports of the
// run.
func (c *Config) statement() Statement {
	st := Statement{Title: c.Title}
	for _, r := range c.references {
		st.References = append(st.References, r.Address)
	}

	for _, r := range c.inputs {
		st.Inputs = append(st.Inputs, r.Address)
	}
	return st
}

// base is the file's name without the extension of a format.
func (c *Config) base() string {
	for _, ext := range extensions {
		if s, ok := strings.CutSuffix(c.File, ext); ok {
			return s
		}
	}
	return c.File
}
