package load

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// slowTokenizer needs time for each text and has two tokens for a word, so that the length of each prompt has to be
// checked.
type slowTokenizer struct{ per time.Duration }

func (t slowTokenizer) Count(text string) int {
	time.Sleep(t.per)
	return 2 * len(strings.Fields(text))
}
func (slowTokenizer) Words() []string { return []string{"word"} }

// TestPromptsAreBuiltAhead checks that building prompts takes no time between a response and the next
// request if the prompts can be built in the meantime.
func TestPromptsAreBuiltAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.Requests, set.OSL = 1, 200, 1
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond})
		res, _ := start(t, srv, set, Options{Tokenizer: slowTokenizer{20 * time.Millisecond}})
		near(t, "duration", avg(t, res.Profiling.Summary, "benchmark_duration"), 200*0.1)
		near(t, "lag", avg(t, res.Profiling.Summary, "send_lag"), 0)
	})
}

// TestWaitingForPromptsIsSendLag checks that a client which cannot build prompts fast enough reports it, also with a
// limit of prefills that no request waits for.
func TestWaitingForPromptsIsSendLag(t *testing.T) {
	for _, prefills := range []int{0, 8} {
		synctest.Test(t, func(t *testing.T) { waitForPrompts(t, prefills) })
	}
}

func waitForPrompts(t *testing.T, prefills int) {
	set := quick()
	set.PrefillConcurrency = prefills
	set.Concurrency, set.Requests, set.OSL = 8, 400, 1
	srv := server(t, loadtest.Options{TTFT: 10 * time.Millisecond})
	res, recs := start(t, srv, set, Options{Tokenizer: slowTokenizer{50 * time.Millisecond}})
	s := res.Profiling.Summary
	idle := 8*avg(t, s, "benchmark_duration")*1e3 - 400*10
	if lag := 400 * avg(t, s, "send_lag"); !(lag > 0.8*idle) || idle < 1000 {
		t.Errorf("the slots were idle for %v ms, the lag is %v ms", idle, lag)
	}
	if len(recs) != 400 {
		t.Errorf("%d requests were sent", len(recs))
	}
}
