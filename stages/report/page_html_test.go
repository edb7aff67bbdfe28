package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"aicplan/sink/base/testutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/stages/report/model"
	"aicplan/stages/report/page"
)

// sample is a report about a made-up run, and its page.
func sample(t testing.TB, rows int) ([]byte, *model.Report) {
	t.Helper()
	in := sampleInput(t, rows)

	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	if err := page.WriteHTML(&b, r, 200000); err != nil {
		t.Fatal(err)
	}

	return b.Bytes(), r
}

func comma(n int) string { return textutil.Count(n) }

// TestPageLoadsNothing checks that the page has no address of anything else: it must open from a mail
// attachment.
func TestPageLoadsNothing(t *testing.T) {
	data, _ := sample(t, 500)
	text := string(data)
	for _, pattern := range []string{`(?i)(src|href|action|poster|data)\s*=\s*["']?(https?:|//|file:)`,
		`(?i)url\(`, `(?i)@import`, `(?i)<link`, `(?i)<iframe`, `(?i)<img`, `fetch\(`, `XMLHttpRequest`, `(?i)javascript:`} {
		if found := regexp.MustCompile(pattern).FindString(text); found != "" {
			t.Errorf("the page has %q", found)
		}
	}

	if !strings.Contains(text, `default-src 'none'`) {
		t.Error("no policy forbids the page to load anything")
	}

	for _, want := range []string{"h200_sxm", "node-17", "580.65.06", "the runtime indexes with 32 bits"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestTextOfTheDataIsEscaped writes a report whose messages are markup.
func TestTextOfTheDataIsEscaped(t *testing.T) {
	in := sampleInput(t, 100)

	const evil = `</script><script>alert(1)</script><b onclick="x">`
	in.Title = evil
	in.Finished[3].Outcome.Checks[1].Message = evil
	in.Tables[0].Data.Table = table.WithColumn(in.Tables[0].Data.Table, "kernel_source",
		table.Constant(evil, int(in.Tables[0].Data.Table.NumRows())))
	in.Tables[1].Data.Info.Env = map[string]string{"hostname": evil}
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	for _, table := range r.Tables {
		table.Unit = evil
	}

	var b bytes.Buffer
	if err := page.WriteHTML(&b, r, 1000); err != nil {
		t.Fatal(err)
	}

	if text := b.String(); strings.Contains(text, "<script>alert") || strings.Contains(text, "<b onclick") {
		t.Error("text of the data became markup")
	}
}

func TestSameReportSameBytes(t *testing.T) {
	first, _ := sample(t, 2000)
	second, _ := sample(t, 2000)
	if !bytes.Equal(first, second) {
		t.Error("two pages of equal reports differ")
	}
}

// TestEmbeddedRowsAreThoseOfTheTable unpacks the rows of the page.
func TestEmbeddedRowsAreThoseOfTheTable(t *testing.T) {
	data, r := sample(t, 700)
	packed := regexp.MustCompile(`<script type="text/plain">([A-Za-z0-9+/=]+)</script>`).FindAllSubmatch(data, -1)
	if len(packed) != len(r.Tables) {
		t.Fatalf("%d packed tables, want %d", len(packed), len(r.Tables))
	}

	raw, err := base64.StdEncoding.DecodeString(string(packed[0][1]))
	if err != nil {
		t.Fatal(err)
	}

	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}

	var got struct {
		Rows int
		Cols []struct {
			Name string
			V    []any
		}
	}
	if err := json.NewDecoder(z).Decode(&got); err != nil {
		t.Fatal(err)
	}

	rec := r.Tables[0].Data.Table
	if got.Rows != int(rec.NumRows()) {
		t.Fatalf("%d rows, want %d", got.Rows, rec.NumRows())
	}

	latency, err := table.Float64s(rec, "latency")
	if err != nil {
		t.Fatal(err)
	}

	dtypes, err := table.Strings(rec, "gemm_dtype")
	if err != nil {
		t.Fatal(err)
	}

	seen := 0
	for _, c := range got.Cols {
		for i, v := range c.V {
			switch c.Name {
			case "latency":
				want, err := strconv.ParseFloat(strconv.FormatFloat(latency.Values[i], 'g', 6, 64), 64)
				if err != nil || v != want {
					t.Fatalf("latency of row %d: %v, want %v (%v)", i, v, want, err)
				}
				seen++
			case "gemm_dtype":
				if v != dtypes.Values[i] {
					t.Fatalf("dtype of row %d: %v, want %s", i, v, dtypes.Values[i])
				}
				seen++
			}
		}
	}

	if seen != 2*got.Rows {
		t.Errorf("%d cells compared, want %d", seen, 2*got.Rows)
	}

	var b bytes.Buffer
	if err := page.WriteHTML(&b, r, 50); err != nil {
		t.Fatal(err)
	}

	if n := strings.Count(b.String(), `<script type="text/plain">`); n != 1 {
		t.Errorf("with at most 50 rows %d tables are carried along, want the one of 30 rows", n)
	}

	if !strings.Contains(b.String(), "rows are too many to carry along") {
		t.Error("the page has no note about rows that are left out")
	}
}

// TestPageOfManyRowsIsSmall keeps the page small enough for a mail.
func TestPageOfManyRowsIsSmall(t *testing.T) {
	testutil.SkipUnlessAll(t)
	data, _ := sample(t, 100000)
	if len(data) > 6<<20 {
		t.Errorf("a report of 100,000 rows has %d bytes", len(data))
	}

	if n := bytes.Count(data, []byte("<path")); n > 600 {
		t.Errorf("%d paths: marks of a series belong into one", n)
	}
}

// TestMetricHasItsName has a table of requests a second beside those of times.
func TestMetricHasItsName(t *testing.T) {
	html, r := sample(t, 50)
	if text := string(html); !strings.Contains(text, "latency, median") || !strings.Contains(text, "Latency ") {
		t.Error("tables of times have no heading for them")
	}

	r.Tables[0].Metric, r.Tables[0].Unit = "request_throughput", "requests/s"
	var b strings.Builder
	if err := page.WriteHTML(&b, r, 50); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"metric, median", "Request throughput ", "<small>request_throughput</small>"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}

	if strings.Contains(b.String(), "latency, median") {
		t.Error("a median of requests a second is headed latency")
	}
}
