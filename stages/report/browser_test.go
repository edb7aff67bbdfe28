package report

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// startBrowser starts the system's Chromium with a fresh profile. It skips the test if
// Chromium is not installed.
func startBrowser(t testing.TB) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}

	if path == "" {
		t.Skip("no Chromium on this machine: pages are looked at where one is installed")
	}

	// Without these it calls its maker at every start.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true), chromedp.WindowSize(1300, 900))

	// The profile's folder is the library's, which removes it again and again: children
	// of a browser that has ended still write into it. The one of the test, which is
	// removed once, would fail the test.
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

// watchPage collects what a page must not do: ask for anything that is not allowed,
// throw, or complain.
func watchPage(t testing.TB, ctx context.Context, allowed func(url string) bool) func() []string {
	t.Helper()
	var mu sync.Mutex
	var wrong []string
	err := chromedp.Listen(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()

		switch ev := ev.(type) {
		case *network.EventRequestWillBeSent:
			if !allowed(ev.Request.URL) {
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

// patience is how long a page may take for one step before it counts as stuck.
const patience = time.Minute

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

// until waits until an expression is true, even if the page reloads.
func until(t testing.TB, ctx context.Context, expr string) {
	t.Helper()

	for begin := time.Now(); ; {
		_, err := chromedp.Run(ctx, chromedp.Poll[bool](expr, chromedp.WithPollingTimeout(patience)))
		if err == nil {
			return
		}
		if !between(err) || time.Since(begin) > patience {
			t.Fatalf("waiting for %s: %v", expr, err)
		}
	}
}

// between reports whether an error means that the page was replaced by the next one
// while an expression was evaluated in it. Chromium has several messages for that,
// depending on the state of the next page.
func between(err error) bool {
	text := err.Error()
	return strings.Contains(text, "context") || strings.Contains(text, "navigated")
}

// movePointer moves the pointer.
func movePointer(t testing.TB, ctx context.Context, x, y float64) {
	t.Helper()
	if err := chromedp.Do(ctx, chromedp.MouseEvent("mouseMoved", x, y)); err != nil {
		t.Fatal(err)
	}
}
