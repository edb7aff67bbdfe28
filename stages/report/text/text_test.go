package text

import (
	"bytes"
	"flag"
	"strings"
	"testing"
	"unicode/utf8"

	"aicplan/stages/report/reporttest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestGolden(t *testing.T) {
	reporttest.Golden(t, "testdata/report.txt", *update, Write)
}

// TestWidth holds every line to 80 columns, whatever stands in it, without
// losing a word of what is wrapped.
func TestWidth(t *testing.T) {
	r := reporttest.Report(t)
	long := strings.Repeat("eine_sehr_lange_Kennung", 12)
	r.Title, r.Summary, r.Risks[0].Text = long, "Größe "+long+" über alles", long
	r.Tables[0].Name, r.Files[0].Path, r.Nodes[0].Device = long, long, long
	var b bytes.Buffer
	if err := Write(&b, r); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > Width {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
	}
	if joined := strings.Join(strings.Fields(b.String()), ""); !strings.Contains(joined, "Größe"+long+"überalles") {
		t.Error("wrapping lost a part of the summary")
	}
}

// TestPredictions: what is not in the list of workloads is counted, and what the
// package warns of is told.
func TestPredictions(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := Write(&b, reporttest.PredictionReport(t)); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"1 prediction with a warning of the package: the batch does not fit <once>", "2 more workloads, not listed."} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
