package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"aicplan/stages/report/model"
	"aicplan/stages/report/page"
)

// predictionsPage is a page about predictions of a stage.
func predictionsPage(t *testing.T, address string) string {
	t.Helper()
	in := sampleInput(t, 100)

	f := samplePrediction(t)

	for i := range f.Outcome.Checks {
		f.Outcome.Checks[i].Detail = bytes.ReplaceAll(f.Outcome.Checks[i].Detail,
			[]byte("module.ours.collect.predicted"), []byte(address))
	}

	in.Finished = append(in.Finished, f)
	r, err := model.Build(in)
	if err != nil {
		t.Fatal(err)
	}

	var b bytes.Buffer
	if err := page.WriteHTML(&b, r, 0); err != nil {
		t.Fatal(err)
	}

	return b.String()
}

// predictions is the part of a page about predictions.
func predictions(t *testing.T) string {
	t.Helper()
	page := predictionsPage(t, "module.ours.collect.predicted")
	part := regexp.MustCompile(`(?s)<section id="predictions">.*?</section>`).FindString(page)
	if part == "" || !strings.Contains(page, `href="#predictions"`) {
		t.Fatal("the page has no section of predictions")
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
		"1024 8 210 176 -16.2 % 5.31 5.07 -4.5 % 26.3 181 1512 688",
		"By the metrics of the server, 12.5 % of ttft was its queue (median of 1 workload). Against ttft without it the " +
			"predictions are off by p50 4.2 %, p95 4.2 %",
		"1 prediction with a warning of the package: the batch does not fit &lt;once&gt;",
		"2 more workloads are not listed.",
		// What is not known is not a number.
		"8192 1 201 not predicted - 5.04 not predicted - unknown unknown unknown unknown",
		"gemm silicon 158 186 28.2",
		"no kernel: launches, host, scheduler - 9.00 9.00",
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

// On a phone a long address is broken, and what a step is made of is seen whole.
func TestPredictionsOnAPhone(t *testing.T) {
	t.Parallel()
	ctx := startBrowser(t)
	page := predictionsPage(t, "module.published_steps['llama'].collect.predicted")
	open(t, ctx, fileURL(t, []byte(page)))
	call(t, ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1})
	until(t, ctx, `innerWidth === 390`)

	if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d px wide on a phone of 390", wide)
	}

	cut := eval[[]string](t, ctx,
		`[...document.querySelectorAll("#predictions h3, #predictions p, #predictions details[open] .phases")].filter(e => `+
			`e.scrollWidth > e.clientWidth).map(e => e.textContent.trim().slice(0, 60))`)
	if len(cut) > 0 {
		t.Errorf("cut off on a phone: %q", cut)
	}

	if n := eval[int](t, ctx, `document.querySelectorAll("#predictions details[open] .phases table").length`); n < 2 {
		t.Errorf("%d tables of phases are open", n)
	}
}
