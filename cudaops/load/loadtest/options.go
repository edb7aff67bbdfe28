// Package loadtest is a mock of an OpenAI-compatible server for tests and benchmarks, with exact delays and
// the faults of real servers. It records when it received each request and sent each message, to
// check a client's measurements.
package loadtest

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options configure the responses. The zero value responds immediately with the requested number of tokens
// in the format of vLLM.
type Options struct {
	// TTFT is the time from receiving a request to its first token. ITL is the time between tokens. Both
	// are relative to the receipt, so that errors do not accumulate. TTFTSpread and TokenSpread vary the
	// values per request by up to +- that amount.
	TTFT, ITL, TTFTSpread time.Duration

	// Slots is the number of requests that are served at the same time. Further requests wait in order of arrival, and
	// their delays start when they leave the queue. 0 is unlimited.
	Slots int

	// Tokens is the response length for requests without a limit. The default is 16. TokenSpread varies the
	// length by up to +- that number.
	Tokens, TokenSpread int

	// SkipTokenizer simulates a server without a tokenizer. Prompts must be token ids, and responses
	// contain no text and only contain ids if return_token_ids is set.
	SkipTokenizer bool

	// ProfileDir enables POST /start_profile and /stop_profile as in vLLM and SGLang. A stop writes the
	// files ProfileTraces, one per rank, into ProfileDir with vLLM's file names.
	ProfileDir    string
	ProfileTraces []string

	// Key is the required key, or "" for none. KeyHeader is its header; if empty, the key is a bearer token.
	Key, KeyHeader string

	// Faults are injected into matching requests. The first match wins.
	Faults []Fault

	// Truth records requests and responses for GET /truth. If false, the server needs no memory per
	// request.
	Truth bool
}

// Fault kinds.
const (
	FaultStatus     = "status"      // an HTTP error with a JSON body
	FaultErrorEvent = "error_event" // data: {"error":...} after some tokens, then [DONE]
	FaultCut        = "cut"         // the connection is closed inside the stream, before the last chunk
	FaultEOF        = "eof"         // the body ends properly after some tokens, without [DONE] or finish_reason
	FaultReset      = "reset"       // the connection is reset
	FaultNoDone     = "no_done"     // no [DONE]
	FaultBadJSON    = "bad_json"    // invalid JSON in a message after some tokens
	FaultEmpty      = "empty"       // 200 and no bytes
	FaultNoTokens   = "no_tokens"   // role, usage and [DONE], no content
	FaultHTML       = "html"        // 200 text/html, as some proxies respond
	FaultHang       = "hang"        // no more data after some tokens
	FaultSlowHead   = "slow_head"   // a delayed response header
	FaultShort      = "short"       // fewer tokens than requested, finish_reason stop
	FaultWrongUsage = "wrong_usage" // usage counts 10 tokens too many
	FaultBadChunk   = "bad_chunk"   // an invalid chunk size
)

var faultKinds = []string{
	FaultStatus, FaultErrorEvent, FaultCut, FaultEOF, FaultReset, FaultNoDone, FaultBadJSON, FaultEmpty, FaultNoTokens,
	FaultHTML, FaultHang, FaultSlowHead, FaultShort, FaultWrongUsage, FaultBadChunk,
}

// Fault describes when and how a fault is injected.
type Fault struct {
	Kind string

	// Every injects the fault into requests Every, 2*Every, and so on; 1 means all. If First is set, the
	// first First requests fail instead.
	Every, First int

	// After is the number of tokens sent before the fault.
	After int

	// Status is the HTTP status of FaultStatus. The default is 500.
	Status int

	// Delay is the delay of FaultSlowHead.
	Delay time.Duration
}

// ParseFault parses kind[:name=value,...], such as "cut:every=5,after=4" or "status:status=429,first=2".
func ParseFault(text string) (Fault, error) {
	kind, rest, _ := strings.Cut(text, ":")
	f := Fault{Kind: kind, Every: 1, Status: 500, After: 4, Delay: time.Second}
	if !slices.Contains(faultKinds, kind) {
		return f, fmt.Errorf("fault %q: the kinds are %s", kind, strings.Join(faultKinds, ", "))
	}

	if rest == "" {
		return f, nil
	}

	for item := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(item, "=")
		var err error
		whole := func(least, most int) int {
			n, failed := strconv.Atoi(value)
			if failed != nil || n < least || n > most {
				err = fmt.Errorf("%s is a whole number from %d to %d", name, least, most)
			}
			return n
		}

		switch name {
		case "every":
			f.Every = whole(1, mostOf)

		case "first":
			f.First = whole(0, mostOf)

		case "after":
			f.After = whole(0, mostOf)

		case "status":
			f.Status = whole(200, 599)

		case "delay":
			if f.Delay, err = time.ParseDuration(value); err != nil || f.Delay < 0 {
				err = fmt.Errorf("delay is a time, such as 2s")
			}

		default:
			err = fmt.Errorf("it has every, first, after, status and delay")
		}

		if err != nil {
			return f, fmt.Errorf("fault %q: %q: %w", text, item, err)
		}
	}

	return f, nil
}

// mostOf is the maximum of numbers in faults and options.
const mostOf = 1_000_000_000

// strikes reports whether the fault is injected into request number n, counted from 1.
func (f Fault) strikes(n int) bool {
	if f.First > 0 {
		return n <= f.First
	}
	return n%f.Every == 0
}

func (o *Options) settle() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"tokens", o.Tokens}, {"token spread", o.TokenSpread}} {
		if n.value < 0 || n.value > mostOf {
			return fmt.Errorf("%s is %d; it is a number from 0 to %d", n.name, n.value, mostOf)
		}
	}

	for _, path := range o.ProfileTraces {
		if info, err := os.Stat(path); err != nil {
			return fmt.Errorf("trace of a rank: %w", err)
		} else if info.IsDir() {
			return fmt.Errorf("trace of a rank: %s is a folder", path)
		}
	}

	if info, err := os.Stat(o.ProfileDir); o.ProfileDir != "" && err == nil && !info.IsDir() {
		return fmt.Errorf("folder of traces: %s is a file", o.ProfileDir)
	}

	if o.KeyHeader == "" {
		o.KeyHeader = "Authorization"
		if o.Key != "" {
			o.Key = "Bearer " + o.Key
		}
	}
	o.KeyHeader = http.CanonicalHeaderKey(o.KeyHeader)

	o.Tokens = cmp.Or(o.Tokens, 16)

	return nil
}
