package page

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
)

// markdownLimit is the largest number of bytes of a Markdown report. The body of a pull request takes 65,536.
const markdownLimit = 60000

// How many lines of a list are shown before the rest is counted.
const (
	maxTables = 80
	maxLines  = 25
)

// WriteMarkdown writes the report as the body of a pull request: GitHub's Markdown without pictures. If it
// would be longer than the platforms allow, lists are cut short, each with the number of what is left out.
func WriteMarkdown(w io.Writer, r *model.Report) error {
	lines := maxLines
	text := render(r, lines)
	for len(text) > markdownLimit && lines > 1 {
		lines /= 2
		text = render(r, lines)
	}

	if len(text) > markdownLimit {
		cut := strings.LastIndexByte(text[:markdownLimit-80], '\n')
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
		b.linef("\n...and %s more; the HTML report has them all.", textutil.Count(n-most))
	}
}

// long is the number of lines of lists that readers look up single entries in.
func (b *builder) long() int { return max(b.lines, min(maxTables, 3*b.lines)) }

// row writes a row of a table. Cells that come from elsewhere are escaped by the caller.
func (b *builder) row(cells ...string) { b.linef("| %s |", strings.Join(cells, " | ")) }

// cells writes a table, its first columns aligned to the left.
func (b *builder) cells(c *model.Cells) {
	escaped := func(cells []string) []string {
		out := make([]string, len(cells))
		for i, x := range cells {
			out[i] = textutil.Cell(x)
		}
		return out
	}

	b.WriteByte('\n')
	b.row(escaped(c.Heads)...)
	b.linef("%s%s|", strings.Repeat("|---", c.Texts), strings.Repeat("|---:", len(c.Heads)-c.Texts))
	b.list(len(c.Rows), func(i int) { b.row(escaped(c.Rows[i])...) })
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

	b.row("table", "framework", "rows", "coverage", "failed", "skipped", "gate", metric, "speed of light")
	b.linef("|---|---|---:|---:|---:|---:|---|---:|---:|")
	b.listOf(len(r.Tables), b.long(), func(i int) {
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

		b.row(textutil.Cell(t.Name), textutil.Cell(strings.TrimSpace(t.Framework+" "+t.Version)),
			textutil.Count(t.Rows), coverage, textutil.Count(t.Failed), textutil.Count(t.Skipped), gate,
			latency, light)
	})

	for _, t := range r.Tables {
		c := t.Cells
		if c == nil && len(t.Metrics) > 0 {
			c = &model.Cells{Heads: []string{"metric", "unit", "better", "least", "median", "most"}, Texts: 3}
			for _, m := range t.Metrics {
				c.Rows = append(c.Rows, []string{m.Name, m.Unit, m.Better, model.Number(m.Min), model.Number(m.P50),
					model.Number(m.Max)})
			}
		}

		if c != nil {
			b.linef("\n%s:", textutil.Cell(t.Name))
			b.cells(c)
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
				textutil.Count(ref.Common), ref.Ratio.P5, ref.Ratio.P50, ref.Ratio.P95)
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
			b.row(textutil.Count(g.Count), textutil.Cell(g.Value("op")), textutil.Cell(g.Value("class")),
				textutil.Cell(textutil.Clip(g.Example.Message, 200)), textutil.Code(textutil.Clip(g.Example.Case(), 240)))
		})
	}

	if len(r.Skips) > 0 {
		b.heading("Left out, with reasons")
		b.linef("| count | where | rule | reason | whose limit |\n|---:|---|---|---|---|")
		b.list(len(r.Skips), func(i int) {
			s := r.Skips[i]
			b.row(textutil.Count(s.Count), textutil.Cell(s.Where), textutil.Cell(strings.TrimSpace(s.Kind+" "+s.Name)),
				textutil.Cell(textutil.Clip(s.Reason, 200)), textutil.Cell(s.Meaning))
		})
	}
}

func (b *builder) validation(r *model.Report) {
	b.heading("Validation")

	if len(r.Gates) == 0 {
		b.linef("Nothing validated the data.")
		return
	}

	b.linef("| stage | result |\n|---|---|")
	b.list(len(r.Gates), func(i int) {
		text, bad := model.CheckSummary(r.Gates[i])
		if text = textutil.Cell(text); bad {
			text = "**" + text + "**"
		}
		b.row(textutil.Cell(r.Gates[i].Address), text)
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
		b.listOf(len(files), b.long(), func(i int) {
			f := files[i]
			rows := ""
			if f.Rows > 0 {
				rows = textutil.Count(f.Rows)
			}
			b.row(textutil.Code(f.Path), rows, textutil.Code(shortDigest(f.Digest)))
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

// predictions writes predicted beside measured values.
func (b *builder) predictions(r *model.Report) {
	if len(r.Predictions) == 0 {
		return
	}

	b.heading("Predicted and measured")

	for _, c := range r.Predictions {
		b.linef("\n%s, judged by %s: %s.", textutil.Cell(c.Predicted), textutil.Cell(c.Gate), c.Result)
		b.cells(c.Errors())

		for _, text := range []string{c.QueueText(), c.WarningText(), c.Common()} {
			if text != "" {
				b.linef("\n%s", textutil.Inline(text))
			}
		}

		if len(c.Workloads) > 0 {
			b.cells(c.Values())
		}

		if c.More > 0 {
			b.linef("\n%s, not listed.", textutil.Some(c.More, "more workload"))
		}

		for _, w := range c.Workloads {
			for _, p := range w.Phases {
				if p.Kernels != nil {
					b.linef("\n%s, %s, in ms:", textutil.Inline(c.Name(w)), p.Name)
					b.cells(model.Account(p))
				}
			}
		}
	}
}
