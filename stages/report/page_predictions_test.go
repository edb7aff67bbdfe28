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
		"all with tensor_parallel_size 1",
		"ttft 3 12.00 3.000 21.00 8.000 0.8800",
		"1024 8 210.0 176.0 -16.19 26.30 1512",
		"1 prediction with a warning: the batch does not fit &lt;once&gt;",
		"2 more workloads not listed",
		// What is not known is not a number.
		"8192 1 201.0 not predicted - - -",
		"gemm silicon 157.8 186.0 28.20",
		"no kernel: launches, host, scheduler - 9.000 9.000",
		"in all 176.0 210.0 34.00",
		"prefill no trace of it", "gemm 7.450 - -",
		"predicted from tables_version=0.24.0 tables_digest=sha256:1f2e",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}

	if n := strings.Count(part, "<details open>"); n != 2 {
		t.Errorf("%d phases are unfolded, want the two whose kernels are known", n)
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
		`[...document.querySelectorAll("#predictions h3, #predictions p, #predictions .phases details[open]")].filter(e => `+
			`e.scrollWidth > e.clientWidth).map(e => e.textContent.trim().slice(0, 60))`)
	if len(cut) > 0 {
		t.Errorf("cut off on a phone: %q", cut)
	}

	if n := eval[int](t, ctx, `document.querySelectorAll("#predictions .phases details[open] table").length`); n < 2 {
		t.Errorf("%d tables of phases are open", n)
	}
}
