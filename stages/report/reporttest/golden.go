package reporttest

import (
	"bytes"
	"io"
	"os"
	"testing"

	"aicplan/stages/report/model"
)

// Report is the report of the sample run.
func Report(t *testing.T) *model.Report {
	t.Helper()
	in, err := Input(400)
	if err != nil {
		t.Fatal(err)
	}

	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Golden compares the sample's report, as it is written, with a file, or writes
// the file.
func Golden(t *testing.T, path string, update bool, write func(io.Writer, *model.Report) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, Report(t)); err != nil {
		t.Fatal(err)
	}

	if update {
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
