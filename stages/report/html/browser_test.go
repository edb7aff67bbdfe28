package html

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser starts the system's Chromium with a fresh profile. Tests are skipped
// where there is none.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium on this machine: reports are looked at where one is installed")
	}
	// Without these it calls its maker at every start.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true), chromedp.WindowSize(1300, 900), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("closing the browser: %v", err)
		}
		cancel()
	})
	return ctx
}

// watch collects what a page must not do: ask for anything, throw, or complain.
func watch(t *testing.T, ctx context.Context) func() []string {
	t.Helper()
	var mu sync.Mutex
	var wrong []string
	err := chromedp.Listen(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(ev.Request.URL, "file://") && !strings.HasPrefix(ev.Request.URL, "blob:") {
				wrong = append(wrong, "asked for "+ev.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			wrong = append(wrong, fmt.Sprintf("threw %s in line %d", ev.ExceptionDetails.Text, ev.ExceptionDetails.LineNumber))
		case *cdplog.EventEntryAdded:
			wrong = append(wrong, fmt.Sprintf("%s: %s", ev.Entry.Level, ev.Entry.Text))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, ctx, network.Enable, network.EnableParams{})
	call(t, ctx, cdplog.Enable, cdp.Empty{})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, wrong...)
	}
}

func fileURL(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// patience is how long a page may take for one step before it counts as stuck.
const patience = time.Minute

// open loads a page and waits for its script.
func open(t testing.TB, ctx context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, ready)
}

// call sends one command of the protocol.
func call[P, R any](t testing.TB, ctx context.Context, c cdp.Command[P, R], p P) R {
	t.Helper()
	r, err := chromedp.Call(ctx, c, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eval evaluates an expression in the page.
func eval[T any](t testing.TB, ctx context.Context, expr string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expr, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%v in %s", err, expr)
	}
	return v
}

// do evaluates an expression for what it does.
func do(t testing.TB, ctx context.Context, expr string) {
	t.Helper()
	eval[bool](t, ctx, "(() => {"+expr+"; return true })()")
}

// until waits until an expression is true.
func until(t testing.TB, ctx context.Context, expr string) {
	t.Helper()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expr, chromedp.WithPollingTimeout(patience))); err != nil {
		t.Fatalf("waiting for %s: %v", expr, err)
	}
}

// move moves the pointer.
func move(t testing.TB, ctx context.Context, x, y float64) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.MouseEvent("mouseMoved", x, y)); err != nil {
		t.Fatal(err)
	}
}

const ready = `document.documentElement.dataset.ready === "yes"`

func TestInBrowser(t *testing.T) {
	ctx := browser(t)
	data, r := sample(t, 3000)
	wrong := watch(t, ctx)
	open(t, ctx, fileURL(t, data))

	t.Run("charts", func(t *testing.T) {
		if n := eval[int](t, ctx, `document.querySelectorAll("figure.chart > svg").length`); n < 10 {
			t.Errorf("%d charts", n)
		}
		empty := eval[[]string](t, ctx, `[...document.querySelectorAll("figure.chart")].filter(f => f.querySelector("svg:not(.key)").getBBox().width < 100).map(f => f.id)`)
		if len(empty) > 0 {
			t.Errorf("charts without a drawing: %v", empty)
		}
	})

	t.Run("pointer", func(t *testing.T) {
		at := eval[[]float64](t, ctx, `(() => {
			const svg = document.querySelector("#t0-latency > svg"); svg.scrollIntoView({block: "center", behavior: "instant"});
			const m = /M([\d.]+) ([\d.]+)/.exec(svg.querySelector("path.m").getAttribute("d"));
			const p = new DOMPoint(Number(m[1]), Number(m[2])).matrixTransform(svg.getScreenCTM());
			return [p.x, p.y]; })()`)
		move(t, ctx, at[0], at[1])
		until(t, ctx, `!document.querySelector("#tip").hidden`)
		tip := eval[string](t, ctx, `document.querySelector("#tip").innerText`)
		for _, want := range []string{"bfloat16", "m\t", "latency\t", " ms", "speed of light\t"} {
			if !strings.Contains(tip, want) {
				t.Errorf("the tip lacks %q: %q", want, tip)
			}
		}
		move(t, ctx, 2, 2)
		until(t, ctx, `document.querySelector("#tip").hidden`)
	})

	t.Run("legend", func(t *testing.T) {
		hidden := eval[string](t, ctx, `(() => { const b = document.querySelectorAll("#t0-latency .legend button")[1]; b.click();
			return getComputedStyle(document.querySelector('#t0-latency path.m[data-s="1"]')).display + b.getAttribute("aria-pressed"); })()`)
		if hidden != "nonefalse" {
			t.Errorf("a series was switched off: %s", hidden)
		}
		do(t, ctx, `document.querySelectorAll("#t0-latency .legend button")[1].click()`)
	})

	t.Run("slices", func(t *testing.T) {
		before := eval[string](t, ctx, `[...document.querySelectorAll("#t0-heat path[data-k]")].map(p => p.getAttribute("d")).join()`)
		after := eval[string](t, ctx, `(() => { const s = document.querySelector("#t0-heat select"); s.value = s.options.length - 1; s.dispatchEvent(new Event("change"));
			return [...document.querySelectorAll("#t0-heat path[data-k]")].map(p => p.getAttribute("d")).join(); })()`)
		name := eval[string](t, ctx, `document.querySelector("#t0-heat .caption").textContent`)
		last := eval[string](t, ctx, `document.querySelector("#t0-heat select").selectedOptions[0].textContent`)
		if before == after || name != "Shown: "+last+"." {
			t.Errorf("another slice: drawn anew %v, caption %q for %q", before != after, name, last)
		}
		// Back to the first: exactly what was drawn on the server's side.
		again := eval[string](t, ctx, `(() => { const s = document.querySelector("#t0-heat select"); s.value = 0; s.dispatchEvent(new Event("change"));
			return [...document.querySelectorAll("#t0-heat path[data-k]")].map(p => p.getAttribute("d")).join(); })()`)
		if cells := strings.Count(before, "M"); cells == 0 || strings.Count(again, "M") != cells {
			t.Errorf("the first slice again has %d cells, had %d", strings.Count(again, "M"), cells)
		}
	})

	t.Run("filter and rows", func(t *testing.T) {
		want := 0
		gemm := r.Tables[0]
		for i := range gemm.Rows {
			p := gemm.Facets.Params
			if p[0].Text[i] == "fp8" && p[1].Value[i] >= 1000 && p[2].Value[i] < 4000 {
				want++
			}
		}
		do(t, ctx, `document.querySelector("details.rows").open = true; const f = document.querySelector("#filter");
			f.value = "gemm_dtype=fp8 m>=1000 n<4000"; f.dispatchEvent(new Event("input"))`)
		until(t, ctx, fmt.Sprintf(`document.querySelector("details.rows .found")?.textContent === "%s of %s rows"`, comma(want), comma(gemm.Rows)))
		left := eval[[]int](t, ctx, `[...document.querySelectorAll("#t0-latency path.m")].map(p => (p.getAttribute("d").match(/M/g) ?? []).length)`)
		if left[0] != 0 || left[2] != 0 || left[1] == 0 {
			t.Errorf("marks left by series: %v", left)
		}
		do(t, ctx, `const f = document.querySelector("#filter"); f.value = ""; f.dispatchEvent(new Event("input"))`)
		until(t, ctx, `document.querySelector("#hits").textContent === ""`)
		sorted := eval[[]float64](t, ctx, `(async () => { const th = [...document.querySelectorAll("details.rows th")].find(t => t.textContent === "latency"); th.click();
			await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
			const i = [...document.querySelectorAll("details.rows th")].findIndex(t => t.textContent === "latency");
			return [...document.querySelectorAll("details.rows tbody tr")].map(tr => Number(tr.children[i].textContent)); })()`)
		for i := 1; i < len(sorted); i++ {
			if sorted[i] < sorted[i-1] {
				t.Fatalf("rows sorted by latency: %v before %v", sorted[i-1], sorted[i])
			}
		}
		if len(sorted) != 100 {
			t.Errorf("%d rows shown, want 100", len(sorted))
		}
	})

	t.Run("light and dark", func(t *testing.T) {
		color := func(scheme string) string {
			call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return eval[string](t, ctx, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("path.m")).stroke`)
		}
		light, dark := color("light"), color("dark")
		if light == dark || !strings.HasPrefix(light, "rgb(255, 255, 255)") {
			t.Errorf("light %s, dark %s", light, dark)
		}
		do(t, ctx, `document.querySelector("#theme").click()`)
		if got := eval[string](t, ctx, `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("path.m")).stroke`); got != light {
			t.Errorf("the switch in the dark gives %s, want %s", got, light)
		}
	})

	t.Run("phone", func(t *testing.T) {
		call(t, ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1})
		until(t, ctx, `innerWidth === 390`)
		do(t, ctx, `for (const s of document.querySelectorAll("section.table")) s.style.contentVisibility = "visible"`)
		if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("the page is %d px wide on a phone of 390", wide)
		}
		// A word in two lines is one that was broken.
		broken := eval[[]string](t, ctx, `(() => { const out = []; const range = document.createRange();
			for (const cell of document.querySelectorAll("main td:not(.msg), main th")) {
				const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
				for (let n; (n = walk.nextNode());) for (const m of n.data.matchAll(/[A-Za-z0-9_.]+/g)) {
					range.setStart(n, m.index); range.setEnd(n, m.index + m[0].length);
					if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) out.push(m[0]);
				}
			} return [...new Set(out)]; })()`)
		if len(broken) > 0 {
			t.Errorf("words broken on a phone: %q", broken)
		}
		call(t, ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1400, Height: 900, DeviceScaleFactor: 1})
	})

	t.Run("paper", func(t *testing.T) {
		pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
		if err != nil {
			t.Fatal(err)
		}
		if pages := strings.Count(string(pdf), "/Type /Page\n"); pages < 4 || pages > 14 {
			t.Errorf("%d pages of paper", pages)
		}
		// What was opened for paper is closed again.
		if open := eval[int](t, ctx, `document.querySelectorAll("td details[open]").length`); open != 0 {
			t.Errorf("%d tracebacks stay open after printing", open)
		}
	})

	if w := wrong(); len(w) > 0 {
		t.Errorf("the page did what it must not: %q", w)
	}
}

// TestBigInBrowser opens a report of 100,000 rows: it works, and has few enough
// elements to be quick. How quick is for BenchmarkOpen to say.
func TestBigInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a report of 100,000 rows takes a while to make")
	}
	ctx := browser(t)
	data, r := sample(t, 100000)
	wrong := watch(t, ctx)
	open(t, ctx, fileURL(t, data))
	if nodes := eval[int](t, ctx, `document.querySelectorAll("*").length`); nodes > 4000 {
		t.Errorf("%d elements", nodes)
	}
	do(t, ctx, `document.querySelector("details.rows").open = true; const f = document.querySelector("#filter"); f.value = "fp8_block"; f.dispatchEvent(new Event("input"))`)
	want := r.Tables[0].Split[2]
	until(t, ctx, fmt.Sprintf(`document.querySelector("details.rows .found")?.textContent.startsWith("%s of ")`, comma(want.Covered)))
	if w := wrong(); len(w) > 0 {
		t.Errorf("the page did what it must not: %q", w)
	}
}

// BenchmarkOpen opens reports in a browser, from the start of the navigation to
// the first frame after everything has loaded and the script is ready.
func BenchmarkOpen(b *testing.B) {
	for _, rows := range []int{3000, 100000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			ctx := browser(b)
			data, _ := sample(b, rows)
			url := fileURL(b, data)
			b.ReportMetric(float64(len(data))/1e6, "MB")
			total := 0.0
			for b.Loop() {
				open(b, ctx, url)
				total += eval[float64](b, ctx, `performance.getEntriesByType("navigation")[0].loadEventEnd`)
			}
			b.ReportMetric(total/float64(b.N), "ms-to-load")
		})
	}
}
