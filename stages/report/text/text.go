// Package text shows a report to people at a terminal, in lines of at most 80
// columns.
package text

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"aicplan/sink/phrase"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
)

// Width is the widest line.
const Width = 80

// Write writes the report.
func Write(w io.Writer, r *model.Report) error {
	b := &builder{}
	b.para(0, r.Title)
	b.line(strings.Repeat("=", min(utf8.RuneCountInString(r.Title), Width)))
	var run []string
	if r.Run.ID != "" {
		run = append(run, "run "+r.Run.ID)
	}
	if r.Run.Plan != "" {
		run = append(run, "of "+r.Run.Plan)
	}
	if r.Run.Seconds > 0 {
		run = append(run, "in "+model.Duration(r.Run.Seconds))
	}
	if r.Run.ExitCode != nil {
		run = append(run, fmt.Sprintf("with exit code %d", *r.Run.ExitCode))
	}
	b.para(0, strings.Join(run, " "))
	b.line("")
	b.para(0, strings.ToUpper(r.Verdict.Word)+". "+r.Verdict.Text)
	b.heading("Release at a glance")
	b.para(0, r.Summary)
	for _, s := range r.Glance {
		b.item("- ", s)
	}
	if r.Impact != "" {
		b.item("- ", "What users can do with it: "+r.Impact)
	}
	b.tables(r)
	b.heading("Remaining risks")
	if len(r.Risks) == 0 {
		b.para(0, "None follows from the data, and the plan states none.")
	}
	for _, x := range r.Risks {
		b.item(map[string]string{model.Bad: "! "}[x.Level]+"- ", x.Text)
	}
	b.predictions(r)
	b.losses(r)
	b.validation(r)
	b.environment(r)
	b.heading("Checklist")
	for _, c := range r.Checklist {
		b.item(map[string]string{model.Good: "[x] ", model.Warn: "[~] ", model.Bad: "[!] "}[c.Level]+map[string]string{model.Open: "[ ] "}[c.Level], c.Text+": "+c.Note)
	}
	if len(r.Files) > 0 {
		b.heading("Files")
		for _, f := range r.Files {
			rows := ""
			if f.Rows > 0 {
				rows = phrase.Count(int64(f.Rows)) + " rows"
			}
			b.columns([]column{{-44, f.Path}, {14, rows}, {-19, " " + f.Digest}})
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

type builder struct{ strings.Builder }

func (b *builder) line(s string) { b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (b *builder) heading(s string) { b.line("\n" + s + "\n" + strings.Repeat("-", len(s))) }

// para writes text, wrapped, with every line indented.
func (b *builder) para(indent int, s string) {
	if s != "" {
		b.wrap(strings.Repeat(" ", indent), strings.Repeat(" ", indent), s)
	}
}

// item writes text behind a sign, later lines below its beginning.
func (b *builder) item(sign, s string) { b.wrap(sign, strings.Repeat(" ", len(sign)), s) }

// wrap breaks text at spaces; words longer than a line are broken anywhere.
func (b *builder) wrap(first, rest, s string) {
	lead, line, n := first, "", 0
	flush := func() {
		b.line(lead + line)
		lead, line, n = rest, "", 0
	}
	for _, word := range strings.Fields(s) {
		room := Width - utf8.RuneCountInString(lead)
		if n > 0 && n+1+utf8.RuneCountInString(word) > room {
			flush()
			room = Width - len(rest)
		}
		for utf8.RuneCountInString(word) > room {
			r := []rune(word)
			line = string(r[:room])
			flush()
			word, room = string(r[room:]), Width-len(rest)
		}
		if n > 0 {
			line, n = line+" ", n+1
		}
		line, n = line+word, n+utf8.RuneCountInString(word)
	}
	flush()
}

// column is a cell: negative widths are to the left.
type column struct {
	width int
	text  string
}

// columns writes cells side by side, each clipped to its width.
func (b *builder) columns(cols []column) {
	var sb strings.Builder
	for i, c := range cols {
		if i > 0 {
			sb.WriteByte(' ')
		}
		w := max(c.width, -c.width)
		text := phrase.Clip(phrase.OneLine(c.text), w)
		pad := strings.Repeat(" ", w-utf8.RuneCountInString(text))
		if c.width > 0 {
			sb.WriteString(pad + text)
		} else {
			sb.WriteString(text + pad)
		}
	}
	b.line(sb.String())
}

func (b *builder) tables(r *model.Report) {
	if len(r.Tables) == 0 {
		return
	}
	b.heading("Tables")
	b.columns([]column{{-24, ""}, {9, "rows"}, {8, "covered"}, {7, "failed"}, {7, "skipped"}, {-7, "gate"}, {12, "median"}})
	for _, t := range r.Tables {
		coverage := "-"
		if share, ok := t.Coverage(); ok {
			coverage = model.Percent(share)
		}
		gate := "none"
		if t.Gate != nil {
			switch {
			case t.Gate.Failed > 0:
				gate = fmt.Sprintf("%d fail", t.Gate.Failed)
			case t.Gate.Warned > 0:
				gate = fmt.Sprintf("%d warn", t.Gate.Warned)
			default:
				gate = fmt.Sprintf("%d pass", t.Gate.Passed)
			}
		}
		median := "-"
		if t.Latency != nil {
			median = model.Number(t.Latency.P50)
		}
		b.columns([]column{{-24, t.Name}, {9, phrase.Count(int64(t.Rows))}, {8, coverage}, {7, phrase.Count(int64(t.Failed))}, {7, phrase.Count(int64(t.Skipped))}, {-7, gate}, {12, median + " " + t.Unit}})
		b.detail(t)
	}
}

// detail is what a table's line has no room for.
func (b *builder) detail(t *model.Table) {
	var parts []string
	if t.Partial != "" {
		parts = append(parts, t.Partial)
	}
	if line := t.RateLine(); line != "" {
		parts = append(parts, line)
	}
	if t.Light != nil {
		parts = append(parts, "speed of light "+model.Percent(t.Light.P50)+" (best "+model.Percent(t.Light.Max)+")")
	}
	if t.Noise != nil {
		parts = append(parts, "noise "+model.Percent(t.Noise.P50)+", p95 "+model.Percent(t.Noise.P95))
	}
	if t.Throttled > 0 {
		parts = append(parts, model.Percent(t.Throttled)+" throttled")
	}
	if ref := t.Reference; ref != nil && ref.Ratio != nil {
		parts = append(parts, fmt.Sprintf("ratio to %s %.3f (p5 %.3f, p95 %.3f)", ref.A.Name, ref.Ratio.P50, ref.Ratio.P5, ref.Ratio.P95))
	}
	for _, m := range t.Metrics {
		parts = append(parts, fmt.Sprintf("%s %s %s", m.Name, model.Number(m.P50), m.Unit))
	}
	b.para(4, strings.Join(parts, "; "))
	for _, s := range t.Split {
		if s.Planned == 0 || len(t.Split) < 2 {
			continue
		}
		full := 30 * s.Covered / s.Planned
		b.columns([]column{{-3, ""}, {-20, s.Name}, {-32, "[" + strings.Repeat("#", full) + strings.Repeat(".", 30-full) + "]"}, {20, fmt.Sprintf("%s of %s", phrase.Count(int64(s.Covered)), phrase.Count(int64(s.Planned)))}})
	}
}

func (b *builder) losses(r *model.Report) {
	if len(r.Failures) > 0 {
		b.heading("Failures by group")
	}
	for _, g := range r.Failures {
		b.item(fmt.Sprintf("%6s  ", phrase.Count(int64(g.Count))), strings.Join([]string{g.Value("op"), g.Value("class"), g.Example.Message}, "  "))
		b.para(8, "e.g. "+g.Example.Case())
	}
	if len(r.Skips) > 0 {
		b.heading("Left out, with reasons")
	}
	for _, s := range r.Skips {
		b.item(fmt.Sprintf("%10s  ", phrase.Count(s.Count)), strings.TrimSpace(s.Where+" "+s.Kind+" "+s.Name)+": "+s.Reason+" ("+s.Meaning+")")
	}
}

func (b *builder) validation(r *model.Report) {
	b.heading("Validation")
	if len(r.Evidence) == 0 {
		b.para(0, "Nothing validated the data.")
	}
	for _, e := range r.Evidence {
		b.item(map[string]string{model.Good: "ok   ", model.Warn: "warn ", model.Bad: "FAIL "}[e.Level], e.Name+": "+e.Result)
	}
	for _, g := range r.Gates {
		c := results.Count([]results.Group{g})
		if c.Failed+c.Warned == 0 {
			continue
		}
		b.para(0, g.Address)
		if len(g.Checks) == 0 {
			b.para(2, g.Message)
		}
		for _, x := range g.Checks {
			if x.Result != "fail" && x.Result != "warn" {
				continue
			}
			b.item("  "+x.Result+" ", x.Name+": "+x.Message)
			for i, row := range x.Rows {
				if i == 3 {
					b.para(9, "and "+x.RowsBeyond(i))
					break
				}
				b.para(9, row)
			}
		}
	}
}

func (b *builder) environment(r *model.Report) {
	if len(r.Nodes) == 0 {
		return
	}
	b.heading("Node and versions")
	for _, n := range r.Nodes {
		head := n.Device
		if n.Host != "" {
			head += " on " + n.Host
		}
		b.item("- ", head+", "+n.Framework+" "+n.Version)
		var facts []string
		for _, f := range n.Facts {
			facts = append(facts, f.Name+" "+f.Value)
		}
		if n.Image != "" {
			facts = append(facts, "image "+n.Image+" "+n.Digest)
		}
		b.para(2, strings.Join(facts, ", "))
		b.para(2, "measured "+model.List(n.Tables, 12))
	}
}
