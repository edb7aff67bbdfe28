package text

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"aicplan/stages/report/model"
	"aicplan/stages/report/reporttest"
)

var update = flag.Bool("update", false, "rewrite golden files")

func sample(t *testing.T) *model.Report {
	t.Helper()
	in, err := reporttest.Input(400)
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGolden(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/report.txt"
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("differs from %s (-update rewrites it):\n%s", path, b.String())
	}
}

// TestWidth holds every line to 80 columns, whatever stands in it, without
// losing a word of what is wrapped.
func TestWidth(t *testing.T) {
	r := sample(t)
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
