package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aicplan/sink/base/proc"
)

// TestNotReadyErrorHasTheLastResponse checks that the error contains the last response of the server, not that the last
// check was cut off by the deadline.
func TestNotReadyErrorHasTheLastResponse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var tries atomic.Int32
	r := Ready{Address: l.Addr().String(), Within: 2 * readyPoll, Complete: func(ctx context.Context) error {
		if tries.Add(1) == 1 {
			return errors.New("500 Internal Server Error")
		}
		<-ctx.Done()
		return errors.New("no time is left")
	}}
	_, err = r.Wait(t.Context(), &Process{Tree: new(proc.Tree)})
	e, ok := errors.AsType[*NotReadyError](err)
	// A slow machine may not complete any check.
	if !ok || tries.Load() > 0 && e.Missing != "a completion: 500 Internal Server Error" {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
}

// TestRefusals checks that only refusals that persist while the status page is good are final.
func TestRefusals(t *testing.T) {
	t.Parallel()
	page := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(page.Close)
	refused := &RefusedError{Err: errors.New("400 Bad Request")}
	for name, c := range map[string]struct {
		url  string
		says []error
		want int // number of checks
	}{
		"for good":        {page.URL, []error{refused, refused, nil}, 2},
		"with a break":    {page.URL, []error{refused, errors.New("503"), refused, nil}, 4},
		"without a page":  {"", []error{refused, refused, refused, nil}, 4},
		"nothing refused": {page.URL, []error{errors.New("400"), errors.New("400"), nil}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			r := Ready{URL: c.url, Address: page.Listener.Addr().String(), Within: time.Minute, Steady: time.Nanosecond,
				Complete: func(context.Context) error {
					tries++
					return c.says[tries-1]
				}}
			_, err := r.Wait(t.Context(), &Process{Tree: new(proc.Tree)})
			e, _ := errors.AsType[*NotReadyError](err)
			if got := e != nil && e.Refused && e.Missing == "a completion: 400 Bad Request"; tries != c.want ||
				got != (c.want < len(c.says)) {
				t.Errorf("%v after %d tries, want %d", err, tries, c.want)
			}
		})
	}
}

func TestReasonOfACutCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before string
		cut    bool
		took   time.Duration
		want   string
	}{
		{"nothing listens", false, time.Millisecond, "now"},
		{"nothing listens", true, time.Second, "nothing listens"},
		{"nothing listens", true, time.Minute, "now"}, // the check hung for all that time
		{"", true, time.Second, "now"},
	} {
		if got := reason(c.before, errors.New("now"), c.cut, c.took); !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
