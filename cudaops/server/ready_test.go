package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestTheLastTryIsCutOff: what a server answered is told, and not that the last try
// had no time to end.
func TestTheLastTryIsCutOff(t *testing.T) {
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
	_, err = r.Wait(t.Context(), &Process{exited: make(chan struct{})})
	e, ok := errors.AsType[*NotReadyError](err)
	// A slow machine has no time to try at all.
	if !ok || tries.Load() > 0 && e.Missing != "a completion: 500 Internal Server Error" {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
}

func TestReasonsOfTries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before string
		cut    bool
		took   time.Duration
		want   string
	}{
		{"nothing listens", false, time.Millisecond, "now"},
		{"nothing listens", true, time.Second, "nothing listens"},
		{"nothing listens", true, time.Minute, "now"}, // it hung for all that time
		{"", true, time.Second, "now"},
	} {
		if got := reason(c.before, errors.New("now"), c.cut, c.took); !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
