package load

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// TestParseFault checks the error messages for invalid faults.
func TestParseFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cut": "", "cut:": "", "cut:every=5,after=4": "", "status:status=429,first=2": "", "slow_head:delay=2s": "",
		"nosuch": "the kinds are status, ", "cut:every=0": "every is a whole number from 1",
		"cut:every=-1": "every is a whole number", "cut:after=x": "after is a whole number from 0",
		"status:status=9999": "status is a whole number from 200 to 599", "status:status=99": "status is",
		"slow_head:delay=-1s": "delay is a time", "cut:more=1": "it has every, first",
	} {
		_, err := loadtest.ParseFault(text)
		if want == "" && err != nil || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "nil")) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if f, err := loadtest.ParseFault("cut:every=5,after=4"); err != nil ||
		f != (loadtest.Fault{Kind: loadtest.FaultCut, Every: 5, After: 4, Status: 500, Delay: time.Second}) {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestInvalidServerOptions checks that invalid options are rejected when the server is created.
func TestInvalidServerOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]loadtest.Options{
		"tokens is 9000000000": {Tokens: 9_000_000_000},
		"token spread is -5":   {TokenSpread: -5},
		"no such file":         {ProfileDir: t.TempDir(), ProfileTraces: []string{filepath.Join(t.TempDir(), "nothere")}},
		"is a folder":          {ProfileDir: t.TempDir(), ProfileTraces: []string{t.TempDir()}},
		"is a file":            {ProfileDir: "run.go"},
	} {
		if _, err := loadtest.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
