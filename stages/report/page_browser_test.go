package report

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"aicplan/sink/base/testutil"
)

func fileURL(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// open loads a page and waits for its script.
func open(t testing.TB, ctx context.Context, url string) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, ready)
}

// file reports whether an address is the page itself or made by it.
func file(url string) bool {
	return strings.HasPrefix(url, "file://") || strings.HasPrefix(url, "blob:")
}

const ready = `document.documentElement.dataset.ready === "yes"`

func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	ctx := startBrowser(t)
	data, r := sample(t, 3000)
	wrong := watchPage(t, ctx, file)
	open(t, ctx, fileURL(t, data))

	t.Run("charts", func(t *testing.T) {
		if n := eval[int](t, ctx, `document.querySelectorAll("figure.chart > svg").length`); n < 10 {
			t.Errorf("%d charts", n)
		}
		empty := eval[[]string](t, ctx,
			`[...document.querySelectorAll("figure.chart")].filter(f => f.querySelector("svg:not(.key)").getBBox().width < `+
				`100).map(f => f.id)`)
		if len(empty) > 0 {
			t.Errorf("charts without a drawing: %v", empty)
		}
	})

	t.Run("pointer", func(t *testing.T) {
		// Parts of the page are laid out when they come into sight, and move what follows.
		at := eval[[]float64](t, ctx, `(async () => {
			const svg = document.querySelector("#t0-latency > svg"); svg.scrollIntoView({block: "center", behavior: "instant"});
			await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
			const m = /M([\d.]+) ([\d.]+)/.exec(svg.querySelector("path.m").getAttribute("d"));
			const p = new DOMPoint(Number(m[1]), Number(m[2])).matrixTransform(svg.getScreenCTM());
			return [p.x, p.y]; })()`)

		movePointer(t, ctx, at[0], at[1])
		until(t, ctx, `!document.querySelector("#tip").hidden`)

		tip := eval[string](t, ctx, `document.querySelector("#tip").innerText`)
		for _, want := range []string{"bfloat16", "m\t", "latency\t", " ms", "speed of light\t"} {
			if !strings.Contains(tip, want) {
				t.Errorf("the tip lacks %q: %q", want, tip)
			}
		}

		movePointer(t, ctx, 2, 2)
		until(t, ctx, `document.querySelector("#tip").hidden`)
	})

	t.Run("legend", func(t *testing.T) {
		hidden := eval[string](t, ctx,
			`(() => { const b = document.querySelectorAll("#t0-latency .legend button")[1]; b.click();
			return getComputedStyle(document.querySelector('#t0-latency path.m[data-s="1"]')).display + b.getAttribute("aria-pressed"); })()`)
		if hidden != "nonefalse" {
			t.Errorf("a series was switched off: %s", hidden)
		}
		do(t, ctx, `document.querySelectorAll("#t0-latency .legend button")[1].click()`)
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
		until(t, ctx, fmt.Sprintf(`document.querySelector("details.rows .found")?.textContent === "%s of %s rows"`,
			comma(want), comma(gemm.Rows)))

		left := eval[[]int](t, ctx,
			`[...document.querySelectorAll("#t0-latency path.m")].map(p => (p.getAttribute("d").match(/M/g) ?? []).length)`)
		if left[0] != 0 || left[2] != 0 || left[1] == 0 {
			t.Errorf("marks left by series: %v", left)
		}

		do(t, ctx, `const f = document.querySelector("#filter"); f.value = ""; f.dispatchEvent(new Event("input"))`)
		until(t, ctx, `document.querySelector("#hits").textContent === ""`)

		sorted := eval[[]float64](t, ctx,
			`(async () => { const th = [...document.querySelectorAll("details.rows th")].find(t => t.textContent === "latency"); th.click();
			await new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)));
			const i = [...document.querySelectorAll("details.rows th")].findIndex(t => t.textContent === "latency");
			return [...document.querySelectorAll("details.rows tbody tr")].map(tr => Number(tr.children[i].textContent)); })()`)
		for i := 1; i < len(sorted); i++ {
			if !(sorted[i] >= sorted[i-1]) {
				t.Fatalf("rows sorted by latency: %v before %v", sorted[i-1], sorted[i])
			}
		}

		if len(sorted) != 100 {
			t.Errorf("%d rows shown, want 100", len(sorted))
		}
	})

	t.Run("light and dark", func(t *testing.T) {
		color := func(scheme string) string {
			call(t, ctx, emulation.SetEmulatedMedia,
				emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
					Value: scheme}}})
			return eval[string](t, ctx,
				`getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("path.m")).stroke`)
		}

		light, dark := color("light"), color("dark")
		if light == dark || !strings.HasPrefix(light, "rgb(255, 255, 255)") {
			t.Errorf("light %s, dark %s", light, dark)
		}

		do(t, ctx, `document.querySelector("#theme").click()`)

		if got := eval[string](t, ctx,
			`getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("path.m")).stroke`); got != light {
			t.Errorf("the switch in the dark gives %s, want %s", got, light)
		}
	})

	t.Run("every width", func(t *testing.T) {
		for _, width := range []int{700, 950, 1200, 1301, 1500, 2200} {
			call(t, ctx, emulation.SetDeviceMetricsOverride,
				emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 900, DeviceScaleFactor: 1})
			until(t, ctx, fmt.Sprintf(`innerWidth === %d`, width))
			if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("the page is %d px wide in a window of %d", wide, width)
			}
		}
	})

	t.Run("phone", func(t *testing.T) {
		call(t, ctx, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: 390, Height: 844, DeviceScaleFactor: 1})
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

		call(t, ctx, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: 1400, Height: 900, DeviceScaleFactor: 1})
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
// elements to be quick. BenchmarkOpen measures how quick.
func TestBigPageInBrowser(t *testing.T) {
	testutil.SkipUnlessAll(t)
	ctx := startBrowser(t)
	data, r := sample(t, 100000)
	wrong := watchPage(t, ctx, file)
	open(t, ctx, fileURL(t, data))

	if nodes := eval[int](t, ctx, `document.querySelectorAll("*").length`); nodes > 4000 {
		t.Errorf("%d elements", nodes)
	}

	do(t, ctx, `document.querySelector("details.rows").open = true; const f = document.querySelector("#filter"); `+
		`f.value = "fp8_block"; f.dispatchEvent(new Event("input"))`)
	words, want := r.Tables[0].Facets.Series, 0
	for _, code := range words.Code {
		if words.Names[code] == "fp8_block" {
			want++
		}
	}
	until(t, ctx, fmt.Sprintf(`document.querySelector("details.rows .found")?.textContent.startsWith("%s of ")`,
		comma(want)))

	if w := wrong(); len(w) > 0 {
		t.Errorf("the page did what it must not: %q", w)
	}
}

// BenchmarkOpen opens reports in a browser, from the start of the navigation to
// the first frame after everything has loaded and the script is ready.
func BenchmarkOpen(b *testing.B) {
	for _, rows := range []int{3000, 100000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			ctx := startBrowser(b)
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
