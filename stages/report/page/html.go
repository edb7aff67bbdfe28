// Package page writes a report as one HTML file and as Markdown. The HTML file has style, script, drawings and
// rows inside of it, and no address of anything else: it opens from a mail attachment, follows the reader's
// light or dark, and prints.
package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/charts"
	"aicplan/stages/report/model"
)

//go:embed assets/*.html
var assets embed.FS

//go:embed assets/style.css
var css template.CSS

//go:embed assets/report.js
var js template.JS

// WriteHTML writes the report with the rows of tables that have at most so many, for searching. Tables with
// more rows have a note instead. Equal reports give equal bytes.
func WriteHTML(w io.Writer, r *model.Report, rows int) error {
	p, err := newPage(r, rows)
	if err != nil {
		return err
	}

	t, err := template.New("page.html").Funcs(textutil.Functions).Funcs(functions).ParseFS(assets, "assets/*.html")
	if err != nil {
		return fmt.Errorf("report page: %w", err)
	}

	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("report page: %w", err)
	}

	_, err = w.Write(b.Bytes())
	return err
}

// page is the data of the template.
type page struct {
	*model.Report
	CSS    template.CSS
	JS     template.JS
	Run    charts.Group
	Charts map[string]charts.Group
	Embed  map[string]*rowsData
}

func newPage(r *model.Report, rows int) (*page, error) {
	p := &page{Report: r, CSS: css, JS: js, Charts: map[string]charts.Group{},
		Embed: map[string]*rowsData{}}
	for _, g := range charts.Draw(r) {
		if g.Address == "" {
			p.Run = g
		} else {
			p.Charts[g.Address] = g
		}
	}

	for _, t := range r.Tables {
		if t.Rows == 0 || rows == 0 {
			continue
		}
		packed, err := embedRows(t, rows)
		if err != nil {
			return nil, fmt.Errorf("rows of %s: %w", t.Address, err)
		}
		p.Embed[t.Address] = packed
	}

	return p, nil
}

var functions = template.FuncMap{
	"has":      has,
	"number":   model.Number,
	"percent":  model.Percent,
	"duration": model.Duration,
	"words":    model.Words,
	"level":    model.LevelOf,
	"raw":      func(s string) template.HTML { return template.HTML(s) },
	"json":     toJSON,
	"swatch":   swatch,
	"anchor":   anchor,
	"share":    func(a, b int) string { return fmt.Sprintf("%.2f", 100*float64(a)/float64(max(b, 1))) },
	"held":     func(g results.Group) results.Counts { return results.Count([]results.Group{g}) },
	"sorted":   worstFirst,
	"quantity": quantity,
	"capital":  func(s string) string { return charts.Capital(strings.ReplaceAll(s, "_", " ")) },
	"metric":   metricHeading,
	"value":    model.Value,
}

// metricHeading heads the column with the median of what tables are compared by.
func metricHeading(tables []*model.Table) string {
	for _, t := range tables {
		if t.Metric != tables[0].Metric {
			return "metric, median"
		}
	}
	return tables[0].Metric + ", median"
}

// has reports whether a table has a rate, a share of the speed of light or noise.
func has(tables []*model.Table, what string) bool {
	return slices.ContainsFunc(tables, func(t *model.Table) bool {
		switch what {
		case "rate":
			return t.RateOf() != ""
		case "light":
			return t.Light != nil
		}
		return t.Noise != nil
	})
}

// toJSON is data for the page's script. encoding/json escapes what could end
// the element it stands in.
func toJSON(v any) (template.JS, error) {
	b, err := json.Marshal(v)
	return template.JS(b), err
}

// swatch draws the sign of a legend's entry.
func swatch(k charts.Key) template.HTML {
	if strings.HasPrefix(k.Class, "c") {
		return template.HTML(fmt.Sprintf(`<svg class="key" viewBox="0 0 12 12" aria-hidden="true">`+
			`<path class="%s %s" d="M6 6%s"/></svg>`, k.Class, charts.ShapeClass(k.Shape),
			charts.Shapes[k.Shape%len(charts.Shapes)]))
	}
	return template.HTML(fmt.Sprintf(`<svg class="key" viewBox="0 0 12 12" preserveAspectRatio="none" aria-hidden="true">`+
		`<path class="%s" d="M0 1h12v10h-12z"/></svg>`, k.Class))
}

// anchor makes an address fit for an id.
func anchor(address string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, address)
}

// worstFirst orders checks by what a reader has to see.
func worstFirst(checks []stage.CheckResult) []stage.CheckResult {
	rank := map[string]int{"fail": 0, "warn": 1, "skip": 2, "pass": 3}
	out := slices.Clone(checks)
	slices.SortStableFunc(out, func(a, b stage.CheckResult) int { return rank[a.Result] - rank[b.Result] })
	return out
}

// quantity is the middle of a spread with its ends for a title.
func quantity(s *model.Spread, unit string) template.HTML {
	if s == nil {
		return "-"
	}

	// What goes past the template's escaping is escaped here, wherever it comes from.
	text := func(v float64) string { return model.Number(v) + " " + template.HTMLEscapeString(unit) }
	if unit == "%" {
		text = model.Percent
	}
	return template.HTML(fmt.Sprintf(`<span title="least %s, 5 %% below %s, 5 %% above %s, most %s">%s</span>`,
		text(s.Min), text(s.P5), text(s.P95), text(s.Max), strings.TrimSpace(text(s.P50))))
}
