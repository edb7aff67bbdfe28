package load

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
)

// TestErrorsCountAsErrors injects each fault of the mock server into every second request and checks that
// eight of sixteen requests fail with the expected kind.
func TestErrorsCountAsErrors(t *testing.T) {
	for _, c := range []struct {
		fault  loadtest.Fault
		whole  bool // also without streaming
		kind   string
		code   int
		text   string
		allows int // number of faulty requests that succeed nevertheless
	}{
		{fault: loadtest.Fault{Kind: loadtest.FaultStatus, Status: 500}, whole: true, kind: "Internal Server Error",
			code: 500, text: "mock fault 500"},
		{fault: loadtest.Fault{Kind: loadtest.FaultStatus, Status: 429}, whole: true, kind: "Too Many Requests", code: 429,
			text: "mock fault 429"},
		{fault: loadtest.Fault{Kind: loadtest.FaultErrorEvent, After: 5}, whole: true, kind: aiperf.TypeServer, code: 500,
			text: "engine died"},
		{fault: loadtest.Fault{Kind: loadtest.FaultCut, After: 5}, whole: true, kind: aiperf.TypeStream,
			text: "the connection ended inside the response"},
		{fault: loadtest.Fault{Kind: loadtest.FaultEOF, After: 5}, kind: aiperf.TypeStream,
			text: "without [DONE] after 5 messages"},
		{fault: loadtest.Fault{Kind: loadtest.FaultReset}, whole: true, kind: aiperf.TypeConnection,
			text: "closed the connection without a response"},
		{fault: loadtest.Fault{Kind: loadtest.FaultNoDone}, kind: aiperf.TypeStream, text: "without [DONE] after 8 messages"},
		{fault: loadtest.Fault{Kind: loadtest.FaultBadJSON, After: 4}, kind: aiperf.TypeStream, text: "no JSON object"},
		{fault: loadtest.Fault{Kind: loadtest.FaultEmpty}, whole: true, kind: aiperf.TypeEmpty,
			text: "the answer has no body"},
		{fault: loadtest.Fault{Kind: loadtest.FaultNoTokens}, whole: true, kind: aiperf.TypeEmpty,
			text: "no output of the model"},
		{fault: loadtest.Fault{Kind: loadtest.FaultHTML}, whole: true, kind: aiperf.TypeEmpty, text: "text/html"},
		{fault: loadtest.Fault{Kind: loadtest.FaultBadChunk, After: 3}, kind: aiperf.TypeProtocol, text: "chunk length"},
		{fault: loadtest.Fault{Kind: loadtest.FaultShort}, whole: true, allows: 8},
		{fault: loadtest.Fault{Kind: loadtest.FaultSlowHead, Delay: time.Second}, whole: true, allows: 8},
		{fault: loadtest.Fault{Kind: loadtest.FaultWrongUsage}, whole: true, allows: 8},
	} {
		for _, streaming := range []bool{true, false} {
			if !streaming && !c.whole {
				continue
			}
			t.Run(c.fault.Kind+map[bool]string{true: "", false: " whole"}[streaming], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c.fault.Every = 2
					set := quick()
					set.Streaming = streaming
					srv := server(t, loadtest.Options{ITL: time.Millisecond, Faults: []loadtest.Fault{c.fault}})
					res, recs := start(t, srv, set, Options{})
					s := res.Profiling.Summary
					if s.Requests != 16 || s.Failed != 8-c.allows || s.Succeeded != 8+c.allows || len(recs) != 16 {
						t.Fatalf("%d requests, %d failed: %+v", s.Requests, s.Failed, s.Errors)
					}
					if c.allows > 0 {
						return
					}
					if len(s.Errors) != 1 || s.Errors[0].Count != 8 {
						t.Fatalf("%+v", s.Errors)
					}
					e := s.Errors[0]
					if e.Type != c.kind || e.Code != c.code || !strings.Contains(e.Message, c.text) {
						t.Errorf("%+v, want %d %s with %q", e, c.code, c.kind, c.text)
					}
					near(t, "error rate", avg(t, s, "request_error_rate"), 50)
					// Rates use the whole window, which includes failed requests.
					near(t, "rates", avg(t, s, "request_throughput")*avg(t, s, "benchmark_duration"), 8)
				})
			})
		}
	}
}

func TestShortAndMiscountedOutputsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server(t, loadtest.Options{Faults: []loadtest.Fault{{Kind: loadtest.FaultShort, Every: 4}}})
		res, _ := start(t, srv, quick(), Options{})
		if s := res.Profiling.Summary; s.Short != 4 || s.Asked != 16 {
			t.Errorf("%d of %d are short", s.Short, s.Asked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		srv := server(t, loadtest.Options{Faults: []loadtest.Fault{{Kind: loadtest.FaultWrongUsage, Every: 4}}})
		res, _ := start(t, srv, quick(), Options{Tokenizer: wordTokenizer{}})
		s := res.Profiling.Summary
		if s.Mismatched != 4 || s.Compared != 16 {
			t.Errorf("%d of %d differ", s.Mismatched, s.Compared)
		}
		if m, ok := s.Get("usage_completion_tokens_diff_pct"); !ok || m.Stats["max"] != 125 {
			t.Errorf("%+v", m)
		}
	})
}

// wordTokenizer counts words like the mock server.
type wordTokenizer struct{}

func (wordTokenizer) Count(text string) int { return len(strings.Fields(text)) }
func (wordTokenizer) Words() []string       { return []string{"word"} }

func TestGoodput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.SLO = map[string]float64{"ttft": 500, "inter_token_latency": 30}
		slow := loadtest.Fault{Kind: loadtest.FaultSlowHead, Every: 4, Delay: time.Second}
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond,
			Faults: []loadtest.Fault{slow}})
		res, _ := start(t, srv, set, Options{})
		s := res.Profiling.Summary
		near(t, "good", avg(t, s, "good_request_count"), 12)
		near(t, "share", avg(t, s, "good_request_fraction"), 0.75)
		near(t, "goodput", avg(t, s, "goodput")*avg(t, s, "benchmark_duration"), 12)
	})
}

func TestAllWarmupRequestsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.WarmupRequests = 2
		srv := server(t, loadtest.Options{Key: "k"})
		_, err := Run(t.Context(), set, Options{Dial: srv.Dial})
		if err == nil || !strings.Contains(err.Error(), "all 2 warm-up requests failed") ||
			!strings.Contains(err.Error(), "401") {
			t.Errorf("got %v", err)
		}
		srv.Close()
		srv.Wait()
	})
}

func TestKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.APIKeyEnv = "THE_KEY"
		srv := server(t, loadtest.Options{Key: "s3cret"})
		res, recs := start(t, srv, set, Options{Getenv: func(string) string { return "s3cret" }})
		if res.Profiling.Summary.Failed > 0 {
			t.Error(res.Profiling.Summary.Errors)
		}
		for _, tr := range srv.Truths() {
			if _, ok := tr.Header["X-Request-Id"]; !ok {
				t.Error("a request has no X-Request-ID")
			}
		}
		_ = recs
	})
	set := quick()
	set.APIKeyEnv = "THE_KEY"
	if _, err := Run(t.Context(), set, Options{Getenv: func(string) string { return "" }}); err == nil ||
		!strings.Contains(err.Error(), "THE_KEY") {
		t.Errorf("got %v", err)
	}
	set = quick()
	set.Headers = map[string]string{"Authorization": "Bearer s3cret"}
	if err := set.Settle(); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	for _, u := range []string{"http://me:s3cret@host", "http://host/?key=s3cret", "http://me:s3cret@ho st"} {
		set = quick()
		set.URL = u
		if err := set.Settle(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q gave %v", u, err)
		}
	}
}
