package report

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"aicplan/engine/stage"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
	"aicplan/stages/report/page"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestMarkdownGolden(t *testing.T) {
	golden(t, "page/testdata/report.md", *update, page.WriteMarkdown)
}

// TestMarkdownTablesAreWhole renders the Markdown: every table of the source must become one,
// with as many cells in each row as in its head.
func TestMarkdownTablesAreWhole(t *testing.T) {
	r := sampleReport(t)
	r.Failures[0].Example.Message = "pipe | in a\nmessage with `code` and <b>markup</b>"

	var b bytes.Buffer
	if err := page.WriteMarkdown(&b, r); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}

	html := out.String()
	if n, want := strings.Count(html, "<table>"), strings.Count(b.String(), "|---"); n == 0 || n > want {
		t.Fatalf("%d tables", n)
	}

	if n := strings.Count(b.String(), "\n|---"); strings.Count(html, "<table>") != n {
		t.Errorf("%d tables of %d", strings.Count(html, "<table>"), n)
	}

	for _, table := range strings.Split(html, "<table>")[1:] {
		table, _, _ = strings.Cut(table, "</table>")
		rows := strings.Split(table, "<tr>")[1:]
		cells := strings.Count(rows[0], "<th")
		for _, row := range rows[1:] {
			if strings.Count(row, "<td") != cells {
				t.Errorf("a row of %d cells below a head of %d: %s", strings.Count(row, "<td"), cells, row)
			}
		}
	}

	if strings.Contains(html, "<b>markup") {
		t.Error("text of a failure became markup")
	}
}

// TestLongMarkdownIsCut: a body that is too long is refused by the platforms that it is
// for. What is cut is counted.
func TestLongMarkdownIsCut(t *testing.T) {
	r := sampleReport(t)
	for i := range 400 {
		c := *r.Tables[0]
		c.Name, c.Address = fmt.Sprintf("table_%d_perf", i), fmt.Sprintf("gate.t%d", i)
		r.Tables = append(r.Tables, &c)
		g := r.Gates[len(r.Gates)-1]
		g.Address = c.Address
		for j := range g.Checks {
			g.Checks[j].Message = strings.Repeat("a long message ", 20)
		}

		r.Gates = append(r.Gates, results.Group{Address: g.Address, Status: stage.StatusGateFailed, Checks: g.Checks})
		r.Failures = append(r.Failures, r.Failures[0])
		r.Risks = append(r.Risks, model.Risk{Text: strings.Repeat("risk ", 40)})
		r.Files = append(r.Files, model.File{Path: fmt.Sprintf("out/%d.txt", i), Rows: 3,
			Digest: "sha256:" + strings.Repeat("0", 64)})
	}

	var b bytes.Buffer
	if err := page.WriteMarkdown(&b, r); err != nil {
		t.Fatal(err)
	}

	if b.Len() > 60000 {
		t.Errorf("%d bytes, at most %d are wanted", b.Len(), 60000)
	}

	if !strings.Contains(b.String(), "more; the HTML report has them all") {
		t.Error("no note counts what was cut")
	}

	if !strings.HasPrefix(b.String(), "# H200") || strings.Contains(b.String(), "\uFFFD") {
		t.Error("the head is not whole")
	}
}

// TestMarkdownCountsWorkloadsLeftOut: workloads that are not listed are counted, and warnings of the package are
// written.
func TestMarkdownCountsWorkloadsLeftOut(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := page.WriteMarkdown(&b, predictionReport(t)); err != nil {
		t.Fatal(err)
	}

	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"1 prediction with a warning: the batch does not fit &lt;once>",
		"2 more workloads not listed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
