package report

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report/model"
	"aicplan/stages/report/page"
	"aicplan/systems"
)

// Run writes the report. It covers failed stages too; only what keeps it from
// being written is an error.
func (c *Config) Run(ctx context.Context, rc *stage.RunContext) (*stage.Outcome, error) {
	rc.Events.Emit(rc.Address, statementEvent, map[string]any{"statement": c.statement()})
	in := c.input(rc)
	if rc.Store != nil {
		if err := Read(rc.Store, &in); err != nil {
			rc.Events.Message(rc.Address, "warn", err.Error())
		}
	}

	r, err := model.Build(in)
	if err != nil {
		return nil, err
	}

	out := &stage.Outcome{Status: stage.StatusOK, Values: map[string]cty.Value{"verdict": cty.StringVal(r.Verdict.Word)}}
	formats := slices.Clone(c.Format)
	slices.Sort(formats)

	for _, f := range slices.Compact(formats) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a, err := c.write(rc.OutDir, f, r)
		if err != nil {
			return nil, err
		}
		out.Artifacts = append(out.Artifacts, a)
	}

	out.Values["path"] = cty.StringVal(out.Artifacts[0].Path)
	out.Message = r.Verdict.Word + ": " + r.Verdict.Text

	// Stages that failed are not part of the key, so that a later run must not reuse
	// the report.
	out.NoReuse = slices.ContainsFunc(in.Finished, func(f stage.Finished) bool {
		return f.Outcome == nil || f.Outcome.Status != stage.StatusOK && f.Outcome.Status != stage.StatusPartial
	})

	return out, nil
}

// input gathers what the report is made of.
func (c *Config) input(rc *stage.RunContext) model.Input {
	run := model.Run{ID: filepath.Base(rc.RunDir), Plan: rc.Range.Filename, Partial: rc.Options.Partial()}
	in := model.Input{Title: c.Title, System: shipped, Run: run}
	if rc.RunDir == "" {
		in.Run.ID = ""
	}

	if rc.Upstream != nil {
		in.Finished = slices.DeleteFunc(slices.Clone(rc.Upstream()), func(f stage.Finished) bool {
			return f.Address == rc.Address || f.Class.Follows() // the report itself and others that describe the run
		})
	}

	var references []*stage.Dataset
	for _, i := range c.Inputs() {
		data := rc.Inputs[i.Name]
		if i.Reference {
			references = append(references, data)
			continue
		}
		in.Tables = append(in.Tables, model.TableInput{Address: i.Ref.Address, Data: data})
	}

	stages := c.statement().References
	for i := range in.Tables {
		in.Tables[i].Compare(references, stages)
	}

	return in
}

// shipped returns a shipped system spec. It returns nil for a system that only the plan defines; the report then has no
// speed of light.
func shipped(name string) *systems.Spec {
	if spec, err := systems.Load(name); err == nil {
		return spec
	}
	return nil
}

// write writes one format and returns the file.
func (c *Config) write(outDir, format string, r *model.Report) (stage.Artifact, error) {
	path, err := fileutil.Place(outDir, c.base()+extensions[format])
	if err != nil {
		return stage.Artifact{}, fmt.Errorf("report: %w", err)
	}

	digest, err := fileutil.Write(path, func(w io.Writer) error { return Write(w, format, r) })
	return stage.Artifact{Path: path, Digest: digest}, err
}

// carriedRows is the number of rows per table that an HTML report contains.
const carriedRows = 200_000

// Write writes a report as html, markdown or json.
func Write(w io.Writer, format string, r *model.Report) error {
	w = &textutil.Writer{W: w} // rows, messages and names come from elsewhere
	switch format {
	case "html":
		return page.WriteHTML(w, r, carriedRows)
	case "markdown":
		return page.WriteMarkdown(w, r)
	case "json":
		return textutil.WriteJSON(w, r)
	}

	panic("report: unknown format " + strings.ToUpper(format)) // Check and the command line refuse it
}
