// Package markdown shows a report as the body of a pull request: GitHub's
// Markdown, short enough for its limit, without pictures.
package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
)

// Limit is the most bytes that Write writes; a pull request's body takes
// 65,536.
const Limit = 60000

// How many lines of a list are shown before the rest is counted.
const (
	maxTables = 80
	maxLines  = 25
)

// Write writes the report. When it would be longer than Limit, lists are cut
// short, each saying how much is left out.
func Write(w io.Writer, r *model.Report) error {
	lines := maxLines
	text := render(r, lines)
	for len(text) > Limit && lines > 1 {
		lines /= 2
		text = render(r, lines)
	}

	if len(text) > Limit {
		cut := strings.LastIndexByte(text[:Limit-80], '\n')
		text = text[:cut] + "\n\nThe rest is in the HTML report.\n"
	}

	_, err := io.WriteString(w, text)
	return err
}

func render(r *model.Report, lines int) string {
	b := &builder{lines: lines}
	b.linef("# %s", textutil.Inline(r.Title))
	b.linef("\n**%s.** %s", strings.ToUpper(r.Verdict.Word[:1])+r.Verdict.Word[1:], textutil.Inline(r.Verdict.Text))
	b.heading("At a glance")

	for _, s := range r.Glance {
		b.linef("- %s", textutil.Inline(s))
	}

	b.tables(r)
	b.risks(r)
	b.predictions(r)
	b.losses(r)
	b.validation(r)
	b.environment(r)
	b.run(r)

	return b.String()
}

type builder struct {
	strings.Builder
	lines int
}

func (b *builder) linef(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func (b *builder) heading(text string) { b.linef("\n## %s\n", text) }

// list writes the first elements of a list and counts the others.
func (b *builder) list(n int, line func(i int)) { b.listOf(n, b.lines, line) }

func (b *builder) listOf(n, most int, line func(i int)) {
	for i := range min(n, most) {
		line(i)
	}
	if n > most {
		b.linef("\n...and %s more; the HTML report has them all.", textutil.Count(int64(n-most)))
	}
}

func (b *builder) tables(r *model.Report) {
	if len(r.Tables) == 0 {
		return
	}

	b.heading("Tables")
	metric := "latency, median"
	if slices.ContainsFunc(r.Tables, func(t *model.Table) bool { return t.Metric != "latency" }) {
		metric = "metric, median"
	}

	b.linef("| table | framework | rows | coverage | failed | skipped | gate | " + metric +
		" | speed of light |\n|---|---|---:|---:|---:|---:|---|---:|---:|")
	b.listOf(len(r.Tables), max(b.lines, min(maxTables, 3*b.lines)), func(i int) {
		t := r.Tables[i]
		coverage := "no plan"
		if share, ok := t.Coverage(); ok {
			coverage = model.Percent(share)
		}

		if t.Partial != "" {
			coverage += " (" + textutil.Cell(t.Partial) + ")"
		}

		gate := "none"
		if t.Gate != nil {
			gate = fmt.Sprintf("%d pass", t.Gate.Passed)
			if t.Gate.Failed > 0 {
				gate = fmt.Sprintf("**%d failed**", t.Gate.Failed)
			} else if t.Gate.Warned > 0 {
				gate += fmt.Sprintf(", %d warn", t.Gate.Warned)
			}
		}

		latency, light := "-", "-"
		if t.Latency != nil {
			if latency = model.Number(t.Latency.P50) + " " + t.Unit; t.Metric != "latency" {
				latency = t.Metric + " " + latency
			}
		}

		if t.Light != nil {
			light = model.Percent(t.Light.P50)
		}

		b.linef("| %s | %s | %s | %s | %s | %s | %s | %s | %s |", textutil.Cell(t.Name),
			textutil.Cell(strings.TrimSpace(t.Framework+" "+t.Version)),
			textutil.Count(int64(t.Rows)), coverage, textutil.Count(int64(t.Failed)), textutil.Count(int64(t.Skipped)), gate,
			latency, light)
	})

	for _, t := range r.Tables {
		if len(t.Metrics) == 0 {
			continue
		}
		if c := t.Cells; c != nil {
			b.linef("\n%s:\n", textutil.Cell(t.Name))
			cells := new(textutil.Table).Right(c.Heads...)
			for _, row := range c.Rows {
				line := make([]any, len(row))
				for i := range row {
					line[i] = row[i]
				}
				cells.Row(line...)
			}
			_ = cells.Markdown(b) // a strings.Builder returns no error
			continue
		}

		b.linef("\n| %s | unit | better | least | median | most |\n|---|---|---|---:|---:|---:|", textutil.Cell(t.Name))
		for _, m := range t.Metrics {
			b.linef("| %s | %s | %s | %s | %s | %s |", textutil.Cell(m.Name), textutil.Cell(m.Unit), m.Better,
				model.Number(m.Min), model.Number(m.P50), model.Number(m.Max))
		}
	}

	for _, t := range r.Tables {
		if line := t.RateLine(); line != "" {
			b.linef("\n%s: %s.", textutil.Cell(t.Name), textutil.Cell(line))
		}
	}

	for _, t := range r.Tables {
		if ref := t.Reference; ref != nil && ref.Ratio != nil {
			b.linef("\n%s against %s: %s rows in common, ratio %.3f / %.3f / %.3f (p5, median, p95).",
				textutil.Cell(t.Name), textutil.Cell(ref.A.Name),
				textutil.Count(int64(ref.Common)), ref.Ratio.P5, ref.Ratio.P50, ref.Ratio.P95)
		}
	}
}

func (b *builder) risks(r *model.Report) {
	b.heading("Remaining risks")

	if len(r.Risks) == 0 {
		b.linef("None follows from the data.")
	}

	b.list(len(r.Risks), func(i int) {
		x := r.Risks[i]
		text := textutil.Inline(x.Text)
		if x.Level == model.Bad {
			text = "**" + text + "**"
		}
		b.linef("- %s", text)
	})
}

func (b *builder) losses(r *model.Report) {
	if len(r.Failures) > 0 {
		b.heading("Failures by group")
		b.linef("| cases | op | class | message | example |\n|---:|---|---|---|---|")
		b.list(len(r.Failures), func(i int) {
			g := r.Failures[i]
			b.linef("| %s | %s | %s | %s | %s |", textutil.Count(int64(g.Count)), textutil.Cell(g.Value("op")),
				textutil.Cell(g.Value("class")), textutil.Cell(textutil.Clip(g.Example.Message, 200)),
				textutil.Code(textutil.Clip(g.Example.Case(), 240)))
		})
	}

	if len(r.Skips) > 0 {
		b.heading("Left out, with reasons")
		b.linef("| count | where | rule | reason | whose limit |\n|---:|---|---|---|---|")
		b.list(len(r.Skips), func(i int) {
			s := r.Skips[i]
			b.linef("| %s | %s | %s | %s | %s |", textutil.Count(s.Count), textutil.Cell(s.Where),
				textutil.Cell(strings.TrimSpace(s.Kind+" "+s.Name)), textutil.Cell(textutil.Clip(s.Reason, 200)), textutil.Cell(s.Meaning))
		})
	}
}

func (b *builder) validation(r *model.Report) {
	b.heading("Validation")

	if len(r.Evidence) == 0 {
		b.linef("Nothing validated the data.")
		return
	}

	b.linef("| what | how | result |\n|---|---|---|")
	b.list(len(r.Evidence), func(i int) {
		e := r.Evidence[i]
		name := textutil.Cell(e.Name)
		result := textutil.Cell(e.Result)
		if e.Level == model.Bad {
			result = "**" + result + "**"
		}
		b.linef("| %s | %s | %s |", name, textutil.Code(e.Command), result)
	})

	for _, g := range r.Gates {
		c := results.Count([]results.Group{g})
		if c.Failed+c.Warned == 0 {
			continue
		}

		b.linef("\n<details><summary>%s: %d failed, %s</summary>\n", textutil.Cell(g.Address), c.Failed,
			textutil.Some(c.Warned, "warning"))

		if len(g.Checks) == 0 {
			b.linef("- %s", textutil.Cell(g.Message))
		}

		for _, x := range g.Checks {
			if x.Result != "fail" && x.Result != "warn" {
				continue
			}

			b.linef("- **%s** %s: %s", x.Result, textutil.Cell(x.Name), textutil.Cell(x.Message))

			for i, row := range x.Rows {
				if i == 3 {
					b.linef("  - and %s", x.RowsBeyond(i))
					break
				}
				b.linef("  - %s", textutil.Code(row))
			}

			if x.Fix != "" {
				b.linef("  - to do: %s", textutil.Cell(x.Fix))
			}
		}

		b.linef("\n</details>")
	}
}

func (b *builder) environment(r *model.Report) {
	if len(r.Nodes) == 0 {
		return
	}

	b.heading("Node and versions")
	b.list(len(r.Nodes), func(i int) {
		n := r.Nodes[i]
		b.linef("- **%s**%s, %s", textutil.Cell(n.Device), textutil.Cell(prefixed(" on ", n.Host)),
			textutil.Cell(strings.TrimSpace(n.Framework+" "+n.Version)))

		var facts []string
		for _, f := range n.Facts {
			facts = append(facts, textutil.Cell(f.Name+" "+f.Value))
		}

		if n.Image != "" {
			facts = append(facts, "image "+textutil.Code(n.Image+prefixed("@", n.Digest)))
		}

		if len(n.Devices) > 0 {
			facts = append(facts, "devices "+textutil.Cell(strings.Join(n.Devices, ", ")))
		}

		if len(facts) > 0 {
			b.linef("  %s", strings.Join(facts, " · "))
		}

		b.linef("  measured %s", textutil.Cell(model.List(n.Tables, 20)))
	})
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func (b *builder) run(r *model.Report) {
	if len(r.Files) > 0 {
		b.heading("Files")
		b.linef("| file | rows | digest |\n|---|---:|---|")
		files := r.FileList()
		b.listOf(len(files), max(b.lines, min(maxTables, 3*b.lines)), func(i int) {
			f := files[i]
			rows := ""
			if f.Rows > 0 {
				rows = textutil.Count(int64(f.Rows))
			}
			digest := ""
			if f.Digest != "" {
				digest = textutil.Code(shortDigest(f.Digest))
			}
			b.linef("| %s | %s | %s |", textutil.Code(f.Path), rows, digest)
		})
	}

	if r.Run.ID != "" {
		ended := ""
		if r.Run.ExitCode != nil {
			ended = fmt.Sprintf(", exit code %d", *r.Run.ExitCode)
		}
		b.linef("\nRun `%s`%s%s.", r.Run.ID, prefixed(" of ", textutil.Code(r.Run.Plan)), ended)
	}
}

func shortDigest(d string) string {
	algo, hex, ok := strings.Cut(d, ":")
	if !ok || len(hex) < 16 {
		return d
	}
	return algo + ":" + hex[:16]
}
