package html

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"aicplan/stages/report/model"
	"aicplan/stages/report/reporttest"
)

// predictions is the part of a page about predictions.
func predictions(t *testing.T) string {
	t.Helper()
	in, err := reporttest.Input(100)
	if err != nil {
		t.Fatal(err)
	}
	f, err := reporttest.Predicted()
	if err != nil {
		t.Fatal(err)
	}
	in.Finished = append(in.Finished, f)
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(&b, r, Options{}); err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)<section id="predictions">.*?</section>`).FindString(b.String())
	if part == "" || !strings.Contains(b.String(), `href="#predictions"`) {
		t.Fatal("the page says nothing of predictions")
	}
	return part
}

// words of a part of a page, without its marks.
func words(part string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(part, " ")), " ")
}

func TestPredictions(t *testing.T) {
	t.Parallel()
	part := predictions(t)
	text := words(part)
	for _, want := range []string{
		"All with tensor_parallel_size 1.",
		"ttft 3 12 % 3 % 21 % 8 % 0.880",
		"1024 8 210 176 -16.2 % 5.31 5.07 -4.5 % 1512 688",
		// What is not known is not a number.
		"8192 1 201 not predicted - 5.04 not predicted - unknown unknown",
		"gemm silicon 158 186 28.2",
		"no kernel launches, host, scheduler - 9.00 9.00",
		"in all 176 210 34.0",
		"prefill no trace of it", "gemm 7.45 unknown unknown",
		"predicted from tables_version=0.24.0 tables_digest=sha256:1f2e",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(part, "<details open>"); n != 1 {
		t.Errorf("%d workloads are unfolded, want the one whose kernels are known", n)
	}
	if t.Failed() {
		t.Log(text)
	}
}
