// Package loadtest is a mock of an OpenAI-compatible server for tests and
// benchmarks: exact delays, the habits of real servers, and their faults. It
// notes when it received each request and when it sent each message, which is
// the truth that a client's numbers are compared with.
package loadtest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say how a server answers. The zero value answers at once, with as
// many tokens as a request asks for, in the form that vLLM's server has.
type Options struct {
	// TTFT is the time from a request's receipt to its first token; ITL is the
	// time from token to token. Both count from the receipt, so they do not
	// drift. TTFTSpread and TokenSpread vary them evenly by the request's number:
	// +- that much.
	TTFT, ITL, TTFTSpread time.Duration
	// Tokens is the length of answers to requests that ask for none (16).
	// TokenSpread makes answers +- that much of it.
	Tokens, TokenSpread int
	// Reasoning is how many tokens of an answer are reasoning, first.
	Reasoning int
	// ReasoningKey is the field of reasoning text: reasoning_content or reasoning.
	ReasoningKey string
	// Role sends a message with a role and an empty content at once.
	Role bool
	// Usage is "asked" (the default: where stream_options asks for it, and in
	// whole answers), "always", "never" or "wrong" (10 tokens too many).
	Usage string
	// PrefixCache notes prompts, and /metrics reports hits; POST
	// /reset_prefix_cache forgets them. Without it both are not found.
	PrefixCache bool
	// Queue is by how much longer each request waited than the one before it, as
	// /metrics says; its prefill took twice as long as it waited.
	Queue time.Duration
	// TensorRT says so where TensorRT-LLM does and by its names; /metrics is a list of
	// other statistics then.
	TensorRT bool
	// NoTokenize leaves /tokenize away.
	NoTokenize bool
	// SkipTokenizer is a server without a tokenizer: prompts are token ids, answers
	// carry no text, and ids only where return_token_ids asks for them.
	SkipTokenizer bool
	// ProfileDir has POST /start_profile and /stop_profile, as vLLM and SGLang have
	// them: a stop writes the files of ProfileTraces there, one a rank, under names
	// as vLLM gives them.
	ProfileDir    string
	ProfileTraces []string
	// Key is the bearer token that requests need, none if empty.
	Key string
	// Faults strike every so many requests.
	Faults []Fault
	// Truth keeps what was received and sent, for GET /truth; without it a server
	// needs no memory per request.
	Truth bool
	// Now and Sleep are the clock; nil means the machine's.
	Now   func() time.Time
	Sleep func(time.Duration)
}

// Fault kinds.
const (
	FaultStatus     = "status"      // an HTTP error with a JSON body
	FaultErrorEvent = "error_event" // data: {"error":...} after some tokens, then [DONE]
	FaultCut        = "cut"         // the connection ends inside the stream, chunks open
	FaultEOF        = "eof"         // the body ends properly after some tokens, without [DONE] or finish_reason
	FaultReset      = "reset"       // the connection is reset
	FaultNoDone     = "no_done"     // everything but [DONE]
	FaultBadJSON    = "bad_json"    // a message that is no JSON, after some tokens
	FaultEmpty      = "empty"       // 200 and no bytes
	FaultNoTokens   = "no_tokens"   // role, usage and [DONE], no content
	FaultHTML       = "html"        // 200 text/html, as proxies answer
	FaultHang       = "hang"        // nothing more after some tokens
	FaultSlowHead   = "slow_head"   // the head comes late
	FaultShort      = "short"       // fewer tokens than asked, finish_reason stop
	FaultWrongUsage = "wrong_usage" // usage counts 10 tokens too many
	FaultBadChunk   = "bad_chunk"   // a chunk size that is no number
)

var faultKinds = []string{
	FaultStatus, FaultErrorEvent, FaultCut, FaultEOF, FaultReset, FaultNoDone, FaultBadJSON, FaultEmpty, FaultNoTokens,
	FaultHTML, FaultHang, FaultSlowHead, FaultShort, FaultWrongUsage, FaultBadChunk,
}

// Fault is one fault.
type Fault struct {
	Kind string
	// Every strikes request Every, 2 Every, ... (1: all of them); First strikes
	// the first so many requests instead.
	Every, First int
	// After is how many tokens come before it.
	After int
	// Status is the HTTP status of FaultStatus (500).
	Status int
	// Delay is of FaultSlowHead.
	Delay time.Duration
}

// ParseFault reads kind[:name=value,...], such as "cut:every=5,after=4" or
// "status:status=429,first=2".
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

// mostOf bounds the numbers of faults and answers.
const mostOf = 1_000_000_000

// strikes says whether the fault hits request number n, counted from 1.
func (f Fault) strikes(n int) bool {
	if f.First > 0 {
		return n <= f.First
	}
	return n%f.Every == 0
}

func (o *Options) settle() error {
	def := func(v *string, d string, allowed ...string) error {
		if *v == "" {
			*v = d
		}
		if !slices.Contains(allowed, *v) {
			return fmt.Errorf("%q is not one of %s", *v, strings.Join(allowed, ", "))
		}
		return nil
	}
	if err := def(&o.Usage, "asked", "asked", "always", "never", "wrong"); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	if err := def(&o.ReasoningKey, "reasoning_content", "reasoning_content", "reasoning"); err != nil {
		return fmt.Errorf("reasoning key: %w", err)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"tokens", o.Tokens}, {"token spread", o.TokenSpread}, {"reasoning", o.Reasoning}} {
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
	if o.Tokens == 0 {
		o.Tokens = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = time.Sleep
	}
	return nil
}
