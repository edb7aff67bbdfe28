package report

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sys/unix"

	"aicplan/engine/checkpoint"
	"aicplan/stages/report/live"
)

// folder is a state folder with runs that the test writes, and a server of it
// that can be away for a while.
type folder struct {
	t       testing.TB
	dir     string
	address string

	mu    sync.Mutex
	runs  []checkpoint.Run
	dead  map[int]bool
	token string

	stop func()
}

func newFolder(t testing.TB) *folder {
	f := &folder{t: t, dir: t.TempDir(), address: reserve(t), dead: map[int]bool{}, stop: func() {}}
	f.start()
	t.Cleanup(func() { f.stop() })
	return f
}

// reserve takes an address for the whole test with a socket that does not listen, so
// that no other process gets it while the server is away.
func reserve(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}

	unix.CloseOnExec(fd)
	t.Cleanup(func() { _ = unix.Close(fd) })

	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}

	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}

	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}

	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*unix.SockaddrInet4).Port))
}

// start serves the folder, at the reserved address: also where the listener of the
// last time is still open in a child that another test has just forked.
func (f *folder) start() {
	f.t.Helper()
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if ctl := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT,
				1)
		}); ctl != nil {
			return ctl
		}
		return err
	}}

	ln, err := shared.Listen(f.t.Context(), "tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}

	page := &live.Server{
		Token: f.token, Interval: 10 * time.Millisecond,
		Runs: func() ([]checkpoint.Run, error) { f.mu.Lock(); defer f.mu.Unlock(); return slices.Clone(f.runs), nil },
		Dead: func(_ string, pid int) bool { f.mu.Lock(); defer f.mu.Unlock(); return f.dead[pid] },
		Report: func(id string) ([]byte, error) {
			return []byte("<!doctype html><title>report of " + id + "</title><p>ok"), nil
		},
	}

	srv := &http.Server{Handler: page.Handler(), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	f.stop = func() { page.Close(); srv.Close(); <-done; f.stop = func() {} }
}

// add begins a run and returns what writes its events.
func (f *folder) add(id string, pid int) func(lines ...string) {
	f.t.Helper()
	r := checkpoint.Run{ID: id, Dir: filepath.Join(f.dir, id), Started: time.Now()}
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		f.t.Fatal(err)
	}

	write := func(lines ...string) {
		f.t.Helper()
		file, err := os.OpenFile(filepath.Join(r.Dir, "events.ndjson"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			f.t.Fatal(err)
		}
		defer file.Close()

		if _, err := io.WriteString(file, strings.Join(lines, "\n")+"\n"); err != nil {
			f.t.Fatal(err)
		}
	}

	write(line("run_start", `"plan":"/plans/night.hcl","host":"node1","pid":%d,"graph":[{"address":"grid.g","kind":"grid","after":[]},`+
		`{"address":"module.pipeline[\"base\"].collect.op[\"attention_generation\"]","kind":"collect","after":["grid.g"],"cases":1000000,"measures":true},`+
		`{"address":"gate.g","kind":"gate","after":["module.pipeline[\"base\"].collect.op[\"attention_generation\"]"]}]`,
		pid),
		line("stage_start", `"stage":%q,"kind":"collect"`, collectStage))

	f.mu.Lock()
	f.runs = append(f.runs, r)
	f.mu.Unlock()

	return write
}

const collectStage = `module.pipeline["base"].collect.op["attention_generation"]`

// Events are of an hour from now: however long a slow machine needs for the test, no
// run falls silent.
func line(typ, fields string, args ...any) string {
	return fmt.Sprintf(`{"@timestamp":%q,"@level":"warn","@message":"CUDA error: an illegal memory access was `+
		`encountered at /opt/framework/csrc/attention/generation/very_long_file_name.cu:1182","type":%q,`, time.Now().Add(time.Hour).Format(time.RFC3339Nano), typ) + fmt.Sprintf(fields, args...) + "}"
}

func advanced(done, failed int) string {
	return line("stage_progress", `"stage":%q,"done":%d,"failed":%d,"total":1000000`, collectStage, done, failed)
}

// night is what eight workers write while they measure n cases, with failures of
// many kinds.
func night(from, n int) []string {
	var out []string
	for i := from; i < from+n; i++ {
		out = append(out, advanced(i*500, i), line("case_failed",
			`"stage":%q,"op":"attention_generation","class":"framework_bug","message":"no kernel for head size `+
				`%s","params":{"batch_size":%d,"kv_cache_dtype":"fp8"}`, collectStage, strings.Repeat("x", i%90), i),
			line("sample", `"stage":%q,"worker":"w%d","device_uuid":"GPU-1a2b3c4d-0000-0000-0000-00000000000%d","cases":%d,"params":{"m":1},"metrics":{"latency":%d.5,"sm_clock_mhz":1980,"power":512.5}`, collectStage, i%8, i%8, i*60, i%7),
			line("message", `"stage":%q`, collectStage))
	}
	return out
}

func has(selector, text string) string {
	return fmt.Sprintf(`document.querySelector(%q).textContent.includes(%q)`, selector, text)
}

func resize(t testing.TB, ctx context.Context, width int) {
	t.Helper()
	call(t, ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 844, DeviceScaleFactor: 1})
	until(t, ctx, fmt.Sprintf(`innerWidth === %d`, width))
}

// faint finds text whose colour is too close to what is behind it: less than 4.5
// to 1, as the rules for accessible pages have it.
const faint = `(() => {
	const rgb = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const b = getComputedStyle(e).backgroundColor, p = rgb(b); if (p.length < 4 || p[3] > 0) return p; } return [255, 255, 255]; };
	const out = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.matches("script, noscript *")) continue;
		const style = getComputedStyle(e), drawn = e instanceof SVGElement;
		const box = drawn && e.parentNode.querySelector("rect");
		const a = light(rgb(drawn ? style.fill : style.color)), b = light(box ? rgb(getComputedStyle(box).fill) : behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) out.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + e.textContent.slice(0, 20));
	}
	return [...out];
})()`

// TestInBrowser watches runs of a million cases on the page itself.
func TestLiveInBrowser(t *testing.T) {
	t.Parallel()
	ctx := startBrowser(t)
	f := newFolder(t)
	url := "http://" + f.address + "/"
	away := false // where the server is away on purpose, the browser reports it
	wrong := watchPage(t, ctx, func(asked string) bool {
		return strings.HasPrefix(asked, url) ||
			strings.HasPrefix(asked, "data:")
	})

	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}

	until(t, ctx, has("#line", "has no run yet"))
	write := f.add("20260101T000000.000-aaaa", 71)
	write(night(1, 300)...)
	until(t, ctx, has("#line", "150\u202f000 of 1\u202f000\u202f000 cases measured, 300 failed, 1 stage running"))

	t.Run("grows to an end", func(t *testing.T) {
		count := `document.querySelectorAll("*").length`
		before := eval[int](t, ctx, count)
		write(night(301, 900)...)
		until(t, ctx, has("#now", "601\u202f200 of 1\u202f000\u202f000 cases"))

		after := eval[int](t, ctx, count)
		if before > 1500 || after > before+50 {
			t.Errorf("%d elements, and %d after three times as many events", before, after)
		}

		for _, want := range []string{"w7", "GPU-1a2b3c4d", "cases/s", "sm_clock_mhz"} {
			until(t, ctx, has("main", want))
		}
	})

	t.Run("every width", func(t *testing.T) {
		for _, width := range []int{320, 390, 800, 2000} {
			resize(t, ctx, width)
			do(t, ctx, `document.querySelector("details").open = true`)

			if wide := eval[int](t, ctx, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("the page is %d px wide in a window of %d", wide, width)
			}

			cut := eval[[]string](t, ctx,
				`[...document.querySelectorAll("main td, main p, main b, main figcaption, header *")].filter(e => !e.matches(".unseen")).filter(e => {
				const r = e.getBoundingClientRect(); return r.width && (r.right > innerWidth + 1 || r.left < -1); }).map(e => e.textContent.slice(0, 40))`)
			if width <= 390 && len(cut) > 0 {
				t.Errorf("cut off at %d px: %q", width, cut)
			}
		}

		resize(t, ctx, 1300)
	})

	t.Run("contrast", func(t *testing.T) {
		for _, scheme := range []string{"dark", "light"} {
			call(t, ctx, emulation.SetEmulatedMedia,
				emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
					Value: scheme}}})
			if found := eval[[]string](t, ctx, faint); len(found) > 0 {
				t.Errorf("%s: too faint: %q", scheme, found)
			}
		}
	})

	t.Run("keyboard", func(t *testing.T) {
		do(t, ctx, `document.activeElement.blur(); scrollTo(0, 0); document.querySelector("details").open = true`)
		var seen []string
		for range 12 {
			if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
				t.Fatal(err)
			}

			at := eval[[]string](t, ctx,
				`(() => { const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect(), head = document.querySelector("header").getBoundingClientRect();
				return [e === document.body ? "" : e.id || e.getAttribute("href") || e.tagName, s.outlineStyle + s.outlineWidth, String(r.top < innerHeight && r.bottom > head.bottom)]; })()`)
			if at[0] == "" {
				break
			}

			seen = append(seen, at[0])

			if at[1] != "solid2px" || at[2] != "true" {
				t.Errorf("%s has the focus: outline %s, in sight %s", at[0], at[1], at[2])
			}
		}

		order := strings.Join(seen, " ")
		if !strings.Contains(order, "graph SUMMARY") || !strings.HasSuffix(order, "/runs/20260101T000000.000-aaaa") {
			t.Errorf("order of the focus: %s", order)
		}

		// A list that is drawn anew keeps the focus where it was.
		do(t, ctx, `document.querySelector("#runs a").focus()`)
		f.add("20260101T000001.000-bbbb", 72)
		eval[bool](t, ctx, `look("", "20260101T000000.000-aaaa").then(() => true)`)

		if got := eval[string](t, ctx,
			`document.activeElement.getAttribute("href") + document.querySelectorAll("#runs tbody tr").length`); got != "/runs/20260101T000000.000-aaaa2" {
			t.Errorf("with one more run the focus is at %s", got)
		}
	})

	t.Run("two at once", func(t *testing.T) {
		// The older one is watched until it is over.
		until(t, ctx, has("#run", "aaaa"))
		write(night(1201, 1)...)
		until(t, ctx, has("#now", "601\u202f701 of"))
	})

	t.Run("the server was away", func(t *testing.T) {
		away = true
		f.stop()
		until(t, ctx, `!document.querySelector("#trouble").hidden && `+has("#trouble", "trying again"))
		write(night(1202, 1)...)
		f.start()
		until(t, ctx, `document.querySelector("#trouble").hidden && `+has("#now", "602\u202f202 of"))
	})

	t.Run("killed", func(t *testing.T) {
		// The page looks for newer runs by itself too. Here it waits for an event, or
		// it would be gone on a slow machine before it is read.
		do(t, ctx, `window.goOn = look; look = () => {}`)
		f.mu.Lock()
		f.dead[71] = true
		f.mu.Unlock()
		until(t, ctx, has("#line", "lost: its process is gone")+" && "+has("#now", "Where it was:")+
			` && !document.querySelector("#now").textContent.includes("left")`)

		if href := eval[string](t, ctx,
			`document.querySelector("#line a").getAttribute("href")`); href != "/runs/20260101T000000.000-aaaa/report" {
			t.Error(href)
		}

		// It does not wait for its end: it loads the page anew.
		do(t, ctx, `goOn("", "20260101T000000.000-aaaa")`)
		until(t, ctx, has("#run", "bbbb"))
	})

	t.Run("ended", func(t *testing.T) {
		end := f.add("20260101T000002.000-cccc", 73)
		end(advanced(1000000, 0), line("stage_end",
			`"stage":%q,"kind":"collect","status":"ok","seconds":9,"counts":{"planned":1000000,"measured":1000000}`,
			collectStage), line("run_end", `"exit_code":4,"seconds":12`))

		if err := chromedp.Do(ctx, chromedp.Navigate(url+"runs/20260101T000002.000-cccc")); err != nil {
			t.Fatal(err)
		}

		until(t, ctx,
			has("#line", "ended with exit code 4, 12 s, 1\u202f000\u202f000 of 1\u202f000\u202f000 cases measured"))
		until(t, ctx, has("#runs", "exit code 4")+" && "+has("#runs", "lost"))
		do(t, ctx, `document.querySelector("#line a").click()`)
		until(t, ctx, `document.title === "report of 20260101T000002.000-cccc"`)
	})

	t.Run("another token", func(t *testing.T) {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"runs/20260101T000001.000-bbbb")); err != nil {
			t.Fatal(err)
		}

		until(t, ctx, has("#line", "running"))
		f.stop()
		f.token = "other"
		f.start()
		until(t, ctx, has("#trouble", "open the address that aicplan serve printed"))
	})

	for _, w := range wrong() {
		if away && (strings.Contains(w, "Failed to load resource") || strings.Contains(w, "net::ERR_")) {
			continue
		}
		t.Errorf("the page did what it must not: %s", w)
	}
}
